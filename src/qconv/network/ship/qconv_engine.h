// An engine: a plan that is loaded on a device. Private to the library.
#pragma once

#include <memory>
#include <string>

#include "qconv_shipped.h"

namespace qconv_shipped {

// The caller's function for layers that no kernel computes.
struct Answer {
    qconv_network_answer function = nullptr;
    void* context = nullptr;
};

// The arrays of a run, and who answers its calls.
struct Arrays {
    const void* const* inputs;
    void* const* outputs;
    void* workspace;
    const Answer* answer = nullptr;
};

// A run that is recorded once, and launched with one call.
class Graph {
  public:
    virtual ~Graph() = default;
    virtual void update(const Arrays& arrays) = 0;
    virtual void launch(qconv_network_stream stream) = 0;
};

class Engine {
  public:
    virtual ~Engine() = default;
    virtual std::string name() const = 0;
    virtual void run(const Program& program, size_t first, size_t last, const Arrays& arrays,
                     qconv_network_stream stream) = 0;
    virtual std::unique_ptr<Graph> graph(const Program& program, const Arrays& arrays) = 0;
    virtual void* allocate(uint64_t bytes) = 0;
    virtual void release(void* memory) = 0;
    virtual void upload(void* to, const void* from, uint64_t bytes) = 0;
    virtual void download(void* to, const void* from, uint64_t bytes) = 0;
    virtual void synchronize(qconv_network_stream stream) = 0;
};

// A device that is open, on which a plan can be loaded. `code` is the path of the file of the kernels.
class OpenDevice {
  public:
    virtual ~OpenDevice() = default;
    virtual int rank(const char* target) const = 0;  // how well a target runs there; 0: it does not
    virtual std::unique_ptr<Engine> load(const Plan& plan, Bytes weights, const std::string& code) = 0;
};

// A kind of device.
struct Vendor {
    const char* name;
    std::unique_ptr<OpenDevice> (*open)(int index);
};

extern const Vendor cpu;
#ifdef QCONV_NETWORK_CUDA
extern const Vendor cuda;
#endif
#ifdef QCONV_NETWORK_HIP
extern const Vendor hip;
#endif

}  // namespace qconv_shipped
