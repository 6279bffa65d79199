// A CUDA graph of launches that are captured, kept from one update to the next where the driver can.
#pragma once

#include "device_cuda.h"

namespace qconv {

#define QCONV_GRAPH_DRIVER(FUNCTION)                                                                              \
    FUNCTION(cuStreamCreate) FUNCTION(cuStreamDestroy) FUNCTION(cuStreamBeginCapture) FUNCTION(cuStreamEndCapture) \
    FUNCTION(cuGraphInstantiateWithFlags) FUNCTION(cuGraphExecUpdate) FUNCTION(cuGraphLaunch)                      \
    FUNCTION(cuGraphExecDestroy) FUNCTION(cuGraphDestroy)

struct GraphDriver {
#define QCONV_MEMBER(name) decltype(&::name) name##_ = nullptr;
    QCONV_GRAPH_DRIVER(QCONV_MEMBER)
#undef QCONV_MEMBER

    GraphDriver() {
#define QCONV_LOAD(name) driver().load(QCONV_EXPORTED(name), name##_);
        QCONV_GRAPH_DRIVER(QCONV_LOAD)
#undef QCONV_LOAD
    }
};

inline const GraphDriver& graph_driver() {
    static const GraphDriver only;
    return only;
}

class Graph {
  public:
    Graph() = default;
    Graph(const Graph&) = delete;
    ~Graph() {
        if (device_ == nullptr) return;
        try {
            device_->within([this] { free(); });
        } catch (const Failure&) {  // the context is gone, and the graph with it
        }
    }

    // Captures what `work` launches on a stream of its own.
    template <typename Work>
    void record(Device& device, Work work) {
        device_ = &device;
        device.within([&] {
            if (stream_ == nullptr) check(graph_driver().cuStreamCreate_(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
            check(graph_driver().cuStreamBeginCapture_(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
            CUgraph captured = nullptr;
            try {
                work(stream_);
            } catch (...) {
                graph_driver().cuStreamEndCapture_(stream_, &captured);
                if (captured != nullptr) graph_driver().cuGraphDestroy_(captured);
                throw;
            }
            check(graph_driver().cuStreamEndCapture_(stream_, &captured), "cuStreamEndCapture");
            const CUresult made = updated(captured) ? CUDA_SUCCESS : instantiated(captured);
            graph_driver().cuGraphDestroy_(captured);
            check(made, "cuGraphInstantiate");
        });
    }

    void launch(Device& device, qconv_stream stream) {
        device.within(
            [&] { check(graph_driver().cuGraphLaunch_(executable_, static_cast<CUstream>(stream)), "cuGraphLaunch"); });
    }

  private:
    bool updated(CUgraph captured) {
        if (executable_ == nullptr) return false;
        CUgraphExecUpdateResultInfo info;
        return graph_driver().cuGraphExecUpdate_(executable_, captured, &info) == CUDA_SUCCESS;
    }
    CUresult instantiated(CUgraph captured) {
        if (executable_ != nullptr) graph_driver().cuGraphExecDestroy_(executable_);
        executable_ = nullptr;
        return graph_driver().cuGraphInstantiateWithFlags_(&executable_, captured, 0);
    }
    void free() {
        if (executable_ != nullptr) graph_driver().cuGraphExecDestroy_(executable_);
        if (stream_ != nullptr) graph_driver().cuStreamDestroy_(stream_);
    }
    static void check(CUresult result, const char* what) { driver().check(result, QCONV_LAUNCH_FAILED, what); }

    Device* device_ = nullptr;
    CUstream stream_ = nullptr;
    CUgraphExec executable_ = nullptr;
};

}  // namespace qconv
