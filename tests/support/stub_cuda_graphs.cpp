// Graphs of the driver without a GPU: what is captured is logged as it is launched, and an update always succeeds.
// Linked with stub_cuda.cpp, for test_qconv_engine_cuda.py.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

namespace {

int made;

CUresult say(const char* what) {
    FILE* const file = fopen(getenv("QCONV_STUB_LOG"), "a");
    fprintf(file, "%s\n", what);
    fclose(file);
    return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned) {
    *stream = reinterpret_cast<CUstream>(&made);
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream) { return say("destroy stream"); }
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) { return say("begin capture"); }
CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
    *graph = reinterpret_cast<CUgraph>(&made);
    return say("end capture");
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph, unsigned long long) {
    *executable = reinterpret_cast<CUgraphExec>(&made);
    return say("instantiate");
}
CUresult cuGraphExecUpdate(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*) {
    return getenv("QCONV_STUB_NO_UPDATE") != nullptr ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : say("update");
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return say("launch graph"); }
CUresult cuGraphExecDestroy(CUgraphExec) { return say("destroy executable"); }
CUresult cuGraphDestroy(CUgraph) { return say("destroy graph"); }

}  // extern "C"
