// An AMD GPU through the HIP runtime, which is loaded when a device is opened: a program linked with this library also
// starts on a machine without the runtime, and reports what is missing.
#pragma once

// HIP overloads some functions for C++. Without the overloads, `decltype` finds the exported function.
#ifndef __HIP_DISABLE_CPP_FUNCTIONS__
#define __HIP_DISABLE_CPP_FUNCTIONS__
#endif
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "qconv_parameters.h"
#include "qconv_table.h"

namespace qconv {

// The header maps functions to versioned names by macros. The second macro expands to the exported name.
#define QCONV_TEXT(name) #name
#define QCONV_EXPORTED(name) QCONV_TEXT(name)
#define QCONV_RUNTIME(FUNCTION)                                                                        \
    FUNCTION(hipInit) FUNCTION(hipGetErrorString) FUNCTION(hipGetDeviceCount) FUNCTION(hipGetDevice)   \
    FUNCTION(hipSetDevice) FUNCTION(hipGetDeviceProperties) FUNCTION(hipStreamSynchronize)             \
    FUNCTION(hipModuleLoadData) FUNCTION(hipModuleUnload) FUNCTION(hipModuleGetFunction)               \
    FUNCTION(hipMalloc) FUNCTION(hipFree) FUNCTION(hipMemcpy) FUNCTION(hipMemcpyAsync)                 \
    FUNCTION(hipMemsetAsync) FUNCTION(hipModuleLaunchKernel)

struct Runtime {
#define QCONV_MEMBER(name) decltype(&::name) name##_ = nullptr;
    QCONV_RUNTIME(QCONV_MEMBER)
#undef QCONV_MEMBER

    Runtime() {
        for (const char* name : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"})
            if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW);
        if (library_ == nullptr)
            throw Failure{QCONV_NO_DEVICE, "libamdhip64.so cannot be loaded: install ROCm's HIP runtime"};
#define QCONV_LOAD(name) load(QCONV_EXPORTED(name), name##_);
        QCONV_RUNTIME(QCONV_LOAD)
#undef QCONV_LOAD
        check(hipInit_(0), QCONV_NO_DEVICE, "the HIP runtime finds no GPU that works; rocminfo says what it sees; hipInit");
    }

    void check(hipError_t result, qconv_status status, const char* what) const {
        if (result == hipSuccess) return;
        throw Failure{result == hipErrorOutOfMemory ? QCONV_NO_MEMORY : status,
                      std::string(what) + ": HIP error " + std::to_string(result) + ", " + hipGetErrorString_(result)};
    }

    // Finds an exported function, whose name is versioned.
    template <typename Function>
    void load(const char* name, Function& function) const {
        function = reinterpret_cast<Function>(dlsym(library_, name));
        if (function == nullptr)
            throw Failure{QCONV_NO_DEVICE, std::string("the HIP runtime has no ") + name + ": install a newer one"};
    }

  private:
    void* library_ = nullptr;
};

// Loaded once. After a failure, the next call tries again.
inline const Runtime& runtime() {
    static const Runtime only;
    return only;
}

struct Function {
    hipFunction_t handle;
};

class Device {
  public:
    static int count() {
        int count = 0;
        runtime().check(runtime().hipGetDeviceCount_(&count), QCONV_NO_DEVICE, "hipGetDeviceCount");
        return count;
    }

    explicit Device(int index) : index_(index) {
        if (index < 0 || index >= count())
            throw Failure{QCONV_NO_DEVICE, "there is no HIP device " + std::to_string(index) + ": the runtime has " +
                                               std::to_string(count()) + ", counted from 0"};
        hipDeviceProp_t properties;
        check(runtime().hipGetDeviceProperties_(&properties, index), QCONV_NO_DEVICE, "hipGetDeviceProperties");
        name_ = properties.name;
        // For example "gfx90a:sramecc+:xnack-". Code that names no features runs with any of them.
        architecture_ = properties.gcnArchName;
        architecture_ = architecture_.substr(0, architecture_.find(':'));
    }
    Device(const Device&) = delete;
    ~Device() {
        const Current current(index_);
        for (hipModule_t each : modules_) (void)runtime().hipModuleUnload_(each);
    }

    std::string name() const { return name_; }

    // Preference for code of a target: 0 where it does not run here.
    int rank(const char* target) const { return architecture_ == target ? 1 : 0; }

    std::vector<Function> load(const Kernel& kernel) {
        const Current current(index_);
        hipModule_t module;
        check(runtime().hipModuleLoadData_(&module, kernel.binary.first), QCONV_LAUNCH_FAILED,
              "the binary cannot be loaded; export it anew for this device");
        modules_.push_back(module);
        std::vector<Function> functions;
        for (const Launch& launch : kernel.launches) {
            hipFunction_t handle;
            check(runtime().hipModuleGetFunction_(&handle, module, launch.symbol), QCONV_LAUNCH_FAILED, launch.symbol);
            functions.push_back({handle});
        }
        return functions;
    }

    void* allocate(size_t bytes) {
        const Current current(index_);
        void* memory = nullptr;
        check(runtime().hipMalloc_(&memory, bytes > 0 ? bytes : 1), QCONV_NO_MEMORY, "hipMalloc");
        return memory;
    }
    void release(void* memory) {
        const Current current(index_);
        (void)runtime().hipFree_(memory);
    }
    void upload(void* to, const void* from, size_t bytes) { transfer(to, from, bytes, hipMemcpyHostToDevice); }
    void download(void* to, const void* from, size_t bytes) { transfer(to, from, bytes, hipMemcpyDeviceToHost); }
    void fill(void* memory, int byte, size_t bytes, qconv_stream stream) {
        const Current current(index_);
        check(runtime().hipMemsetAsync_(memory, byte, bytes, static_cast<hipStream_t>(stream)), QCONV_LAUNCH_FAILED,
              "hipMemsetAsync");
    }
    // Within the device; returns when the copy is queued.
    void copy(void* to, const void* from, size_t bytes, qconv_stream stream) {
        const Current current(index_);
        check(runtime().hipMemcpyAsync_(to, from, bytes, hipMemcpyDeviceToDevice, static_cast<hipStream_t>(stream)),
              QCONV_LAUNCH_FAILED, "hipMemcpyAsync");
    }
    void synchronize(qconv_stream stream) {
        const Current current(index_);
        check(runtime().hipStreamSynchronize_(static_cast<hipStream_t>(stream)), QCONV_LAUNCH_FAILED,
              "a kernel failed");
    }

    // Runs `work` with this device current.
    template <typename Work>
    void within(Work work) const {
        const Current current(index_);
        work();
    }

    void encode(const TensorMap&, uint64_t, unsigned char*) {
        throw Failure{QCONV_INTERNAL, "AMD GPUs copy nothing by tensor maps, and the table has one"};
    }

    // Dynamic shared memory is 0, because kernels declare theirs statically. No launch overlaps the one before it.
    void launch(const Function& function, const Kernel&, const Launch& launch, void* arguments, size_t argument_bytes,
                qconv_stream stream, bool) {
        const Current current(index_);
        void* packed[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &argument_bytes,
                          HIP_LAUNCH_PARAM_END};
        check(runtime().hipModuleLaunchKernel_(function.handle, launch.grid[0], launch.grid[1], launch.grid[2],
                                               launch.threads, 1, 1, 0, static_cast<hipStream_t>(stream), nullptr,
                                               packed),
              QCONV_LAUNCH_FAILED, launch.symbol);
    }

  private:
    // Makes the device current in this thread, for the lifetime of the object.
    class Current {
      public:
        explicit Current(int index) {
            if (runtime().hipGetDevice_(&before_) != hipSuccess || before_ == index) return;
            (void)runtime().hipSetDevice_(index);
            is_set_ = true;
        }
        ~Current() {
            if (is_set_) (void)runtime().hipSetDevice_(before_);
        }

      private:
        int before_ = 0;
        bool is_set_ = false;
    };

    void check(hipError_t result, qconv_status status, const char* what) const {
        runtime().check(result, status, what);
    }
    void transfer(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
        const Current current(index_);
        check(runtime().hipMemcpy_(to, from, bytes, kind), QCONV_LAUNCH_FAILED, "hipMemcpy");
    }

    int index_;
    std::string name_, architecture_;
    std::vector<hipModule_t> modules_;
};

}  // namespace qconv
