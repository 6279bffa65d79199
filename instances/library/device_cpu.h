// The CPU: kernels are functions of this library, which the CPU runtime calls with one fiber per GPU thread.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cpu_runtime.h"
#include "qconv_parameters.h"
#include "qconv_table.h"

// Threads of a launch. 0: one per core, of which all but the caller's are started anew by every launch. With 1, a launch
// starts none and allocates nothing.
#ifndef QCONV_CPU_WORKERS
#define QCONV_CPU_WORKERS 0
#endif

namespace qconv {

struct Function {
    qconv_cpu_entry_t entry;
};

class Device {
  public:
    static int count() { return 1; }

    explicit Device(int index) {
        if (index != 0)
            throw Failure{QCONV_NO_DEVICE, "there is no CPU device " + std::to_string(index) + ": its only one is 0"};
    }

    std::string name() const { return "cpu"; }

    // Preference for code of a target: 0 where it does not run here; larger is better.
    int rank(const char* target) const { return strncmp(target, "cpu", 3) == 0 ? 1 : 0; }

    std::vector<Function> load(const Kernel& kernel) {
        std::vector<Function> functions;
        for (const Launch& launch : kernel.launches) functions.push_back({launch.entry});
        return functions;
    }

    void* allocate(size_t bytes) {
        const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        void* memory = whole < bytes ? nullptr : aligned_alloc(kAlignment, whole);  // the largest sizes wrap
        if (memory == nullptr)
            throw Failure{QCONV_NO_MEMORY, "no memory for " + std::to_string(bytes) + " bytes: free some"};
        return memory;
    }
    void release(void* memory) { free(memory); }
    void upload(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
    void download(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
    void fill(void* memory, int byte, size_t bytes, qconv_stream stream) {
        require_no(stream);
        memset(memory, byte, bytes);
    }
    void copy(void* to, const void* from, size_t bytes, qconv_stream stream) {
        require_no(stream);
        memcpy(to, from, bytes);
    }
    void synchronize(qconv_stream stream) { require_no(stream); }

    // Writes the description that the runtime reads, which begins with the address.
    void encode(const TensorMap& map, uint64_t address, unsigned char* into) {
        memcpy(into, map.described, sizeof map.described);
        memcpy(into, &address, sizeof address);
    }

    // Returns when the kernel has ended, so nothing can overlap.
    void launch(const Function& function, const Kernel& kernel, const Launch& launch, void* arguments, size_t,
                qconv_stream stream, bool) {
        require_no(stream);
        const qconv_cpu_grid grid = {function.entry,
                                     arguments,
                                     nullptr,
                                     launch.smem_bytes,
                                     {launch.grid[0], launch.grid[1], launch.grid[2]},
                                     launch.threads,
                                     launch.cluster,
                                     kernel.warp_size,
                                     QCONV_CPU_WORKERS,
                                     0};
        char message[1024];
        if (qconv_cpu_launch(&grid, message, sizeof message) != 0)
            throw Failure{QCONV_LAUNCH_FAILED, std::string(launch.symbol) + ": " + message};
    }

  private:
    static void require_no(qconv_stream stream) {
        if (stream != nullptr) refuse("a stream was given, but the CPU has none: give null");
    }
    static constexpr size_t kAlignment = 64;
};

}  // namespace qconv
