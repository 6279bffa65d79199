// A GPU, for the engine: qconv_device.h is its vendor's, with the same names for both. Each vendor's engine is compiled
// with a name of its own for the namespace `qconv`, so that both can be in one library.
#pragma once

#include <cstring>

#include "qconv_loaded.h"

namespace qconv_shipped {

inline qconv_network_status status_of(qconv_status status) {
    switch (status) {
        case QCONV_OK:
            return QCONV_NETWORK_OK;
        case QCONV_BAD_ARGUMENT:
            return QCONV_NETWORK_BAD_ARGUMENT;
        case QCONV_NO_KERNEL:
            return QCONV_NETWORK_NO_TARGET;
        case QCONV_NO_DEVICE:
            return QCONV_NETWORK_NO_DEVICE;
        case QCONV_NO_MEMORY:
            return QCONV_NETWORK_NO_MEMORY;
        case QCONV_LAUNCH_FAILED:
            return QCONV_NETWORK_LAUNCH_FAILED;
        default:
            return QCONV_NETWORK_INTERNAL;
    }
}

// Does what a device offers, with the failures of this library.
template <typename Work>
auto translated(Work work) -> decltype(work()) {
    try {
        return work();
    } catch (const qconv::Failure& failure) {
        throw Failure{status_of(failure.status), failure.text};
    }
}

namespace {

class Gpu {
  public:
    struct Code {
        // The functions of each kernel that the plan launches, in the order of its launches.
        std::vector<std::vector<qconv::Launch>> launches;
        std::vector<qconv::Kernel> kernels;
        std::vector<std::vector<qconv::Function>> functions;
        std::vector<size_t> places;  // by the numbers of steps: which launch of its kernel it is
    };

    explicit Gpu(int index) : device_(open(index)) {}

    std::string name() const { return device_->name(); }
    int rank(const char* target) const { return device_->rank(target); }

    Code load(const Plan& plan, const std::string&) {
        Code code;
        code.launches.resize(plan.kernels.size());
        code.places.resize(plan.step_count);
        plan.each_step([&](const Step& step) {
            if (step.kind != Kind::launch) return;
            auto& launches = code.launches[step.kernel];
            code.places[step.number] = launches.size();
            launches.push_back(launch_of(step));
        });
        for (size_t i = 0; i < plan.kernels.size(); ++i) {
            qconv::Kernel kernel = {};
            kernel.launches = {code.launches[i].data(), code.launches[i].size()};
            kernel.warp_size = plan.warp_size;
            kernel.binary = {plan.kernels[i].first, plan.kernels[i].count};
            code.kernels.push_back(kernel);
            code.functions.push_back(translated([&] { return device_->load(kernel); }));
        }
        return code;
    }

    void launch(const Code& code, const Step& step, void* arguments, qconv_network_stream stream) {
        const size_t at = code.places[step.number];
        const qconv::Launch& launch = code.launches[step.kernel][at];
        translated([&] {
            device_->launch(code.functions[step.kernel][at], code.kernels[step.kernel], launch, arguments,
                            step.arguments.size(), stream, step.overlap);
        });
    }

    void encode(const Map& map, uint64_t address, unsigned char* into) {
        qconv::TensorMap made = {};
        made.is_im2col = map.is_im2col;
        made.type = map.type;
        made.rank = map.rank;
        made.swizzle = map.swizzle;
        made.l2_promotion = map.l2_promotion;
        memcpy(made.dims, map.dims, sizeof made.dims);
        memcpy(made.strides, map.strides, sizeof made.strides);
        memcpy(made.box, map.box, sizeof made.box);
        memcpy(made.element_strides, map.element_strides, sizeof made.element_strides);
        memcpy(made.lower, map.lower, sizeof made.lower);
        memcpy(made.upper, map.upper, sizeof made.upper);
        made.channels = map.channels;
        made.pixels = map.pixels;
        translated([&] { device_->encode(made, address, into); });
    }

    void fill(void* to, int byte, uint64_t bytes, qconv_network_stream stream) {
        translated([&] { device_->fill(to, byte, bytes, stream); });
    }
    void copy(void* to, const void* from, uint64_t bytes, qconv_network_stream stream) {
        translated([&] { device_->copy(to, from, bytes, stream); });
    }
    void gather(const Step&, char*, const char*) {
        throw Failure{QCONV_NETWORK_BAD_FOLDER, "the plan gathers by the CPU, and is of a GPU: export the folder anew"};
    }
    void* allocate(uint64_t bytes) {
        return translated([&] { return device_->allocate(bytes); });
    }
    void release(void* memory) { device_->release(memory); }
    void upload(void* to, const void* from, uint64_t bytes) {
        translated([&] { device_->upload(to, from, bytes); });
    }
    void download(void* to, const void* from, uint64_t bytes) {
        translated([&] { device_->download(to, from, bytes); });
    }
    void synchronize(qconv_network_stream stream) {
        translated([&] { device_->synchronize(stream); });
    }

    class Graph {
      public:
        template <typename Work>
        void record(Gpu& gpu, Work work) {
            translated([&] { graph_.record(*gpu.device_, work); });
        }
        void launch(Gpu& gpu, qconv_network_stream stream) {
            translated([&] { graph_.launch(*gpu.device_, stream); });
        }

      private:
        qconv::Graph graph_;
    };

  private:
    static std::unique_ptr<qconv::Device> open(int index) {
        return translated([&] { return std::make_unique<qconv::Device>(index); });
    }

    static qconv::Launch launch_of(const Step& step) {
        qconv::Launch made = {};
        made.symbol = step.symbol.c_str();
        for (int axis = 0; axis < 3; ++axis) made.grid[axis] = step.grid[axis];
        made.threads = step.threads;
        made.smem_bytes = step.smem_bytes;
        made.cluster = step.cluster;
        made.overlaps = step.overlap;
        return made;
    }

    std::unique_ptr<qconv::Device> device_;
};

}  // namespace

}  // namespace qconv_shipped
