// Graphs of the HIP runtime without a GPU, as stub_cuda_graphs.cpp.
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

int made;

hipError_t say(const char* what) {
    FILE* const file = fopen(getenv("QCONV_STUB_LOG"), "a");
    fprintf(file, "%s\n", what);
    fclose(file);
    return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned) {
    *stream = reinterpret_cast<hipStream_t>(&made);
    return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t) { return say("destroy stream"); }
hipError_t hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode) { return say("begin capture"); }
hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t* graph) {
    *graph = reinterpret_cast<hipGraph_t>(&made);
    return say("end capture");
}
hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t, hipGraphNode_t*, char*, size_t) {
    *executable = reinterpret_cast<hipGraphExec_t>(&made);
    return say("instantiate");
}
hipError_t hipGraphExecUpdate(hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*) {
    return getenv("QCONV_STUB_NO_UPDATE") != nullptr ? hipErrorGraphExecUpdateFailure : say("update");
}
hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t) { return say("launch graph"); }
hipError_t hipGraphExecDestroy(hipGraphExec_t) { return say("destroy executable"); }
hipError_t hipGraphDestroy(hipGraph_t) { return say("destroy graph"); }

}  // extern "C"
