// A HIP graph of launches that are captured, kept from one update to the next where the runtime can.
#pragma once

#include "device_hip.h"

namespace qconv {

#define QCONV_GRAPH_RUNTIME(FUNCTION)                                                                          \
    FUNCTION(hipStreamCreateWithFlags) FUNCTION(hipStreamDestroy) FUNCTION(hipStreamBeginCapture)              \
    FUNCTION(hipStreamEndCapture) FUNCTION(hipGraphInstantiate) FUNCTION(hipGraphExecUpdate)                   \
    FUNCTION(hipGraphLaunch) FUNCTION(hipGraphExecDestroy) FUNCTION(hipGraphDestroy)

struct GraphRuntime {
#define QCONV_MEMBER(name) decltype(&::name) name##_ = nullptr;
    QCONV_GRAPH_RUNTIME(QCONV_MEMBER)
#undef QCONV_MEMBER

    GraphRuntime() {
#define QCONV_LOAD(name) runtime().load(QCONV_EXPORTED(name), name##_);
        QCONV_GRAPH_RUNTIME(QCONV_LOAD)
#undef QCONV_LOAD
    }
};

inline const GraphRuntime& graph_runtime() {
    static const GraphRuntime only;
    return only;
}

class Graph {
  public:
    Graph() = default;
    Graph(const Graph&) = delete;
    ~Graph() {
        if (executable_ != nullptr) (void)graph_runtime().hipGraphExecDestroy_(executable_);
        if (stream_ != nullptr) (void)graph_runtime().hipStreamDestroy_(stream_);
    }

    // Captures what `work` launches on a stream of its own.
    template <typename Work>
    void record(Device& device, Work work) {
        device.within([&] {
            if (stream_ == nullptr)
                check(graph_runtime().hipStreamCreateWithFlags_(&stream_, hipStreamNonBlocking), "hipStreamCreate");
            check(graph_runtime().hipStreamBeginCapture_(stream_, hipStreamCaptureModeThreadLocal), "hipStreamBeginCapture");
            hipGraph_t captured = nullptr;
            try {
                work(stream_);
            } catch (...) {
                (void)graph_runtime().hipStreamEndCapture_(stream_, &captured);
                if (captured != nullptr) (void)graph_runtime().hipGraphDestroy_(captured);
                throw;
            }
            check(graph_runtime().hipStreamEndCapture_(stream_, &captured), "hipStreamEndCapture");
            const hipError_t made = updated(captured) ? hipSuccess : instantiated(captured);
            (void)graph_runtime().hipGraphDestroy_(captured);
            check(made, "hipGraphInstantiate");
        });
    }

    void launch(Device& device, qconv_stream stream) {
        device.within(
            [&] { check(graph_runtime().hipGraphLaunch_(executable_, static_cast<hipStream_t>(stream)), "hipGraphLaunch"); });
    }

  private:
    bool updated(hipGraph_t captured) {
        if (executable_ == nullptr) return false;
        hipGraphNode_t failed;
        hipGraphExecUpdateResult result;
        return graph_runtime().hipGraphExecUpdate_(executable_, captured, &failed, &result) == hipSuccess;
    }
    hipError_t instantiated(hipGraph_t captured) {
        if (executable_ != nullptr) (void)graph_runtime().hipGraphExecDestroy_(executable_);
        executable_ = nullptr;
        return graph_runtime().hipGraphInstantiate_(&executable_, captured, nullptr, nullptr, 0);
    }
    static void check(hipError_t result, const char* what) { runtime().check(result, QCONV_LAUNCH_FAILED, what); }

    hipStream_t stream_ = nullptr;
    hipGraphExec_t executable_ = nullptr;
};

}  // namespace qconv
