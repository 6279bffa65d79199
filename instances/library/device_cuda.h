// An NVIDIA GPU through the CUDA driver, which is loaded when a device is opened: a program linked with this library
// also starts on a machine without the driver, and reports what is missing.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "qconv_parameters.h"
#include "qconv_table.h"

namespace qconv {

// cuda.h maps functions to versioned names by macros. The second macro expands to the exported name.
#define QCONV_TEXT(name) #name
#define QCONV_EXPORTED(name) QCONV_TEXT(name)
#define QCONV_DRIVER(FUNCTION)                                                                                \
    FUNCTION(cuInit) FUNCTION(cuGetErrorString) FUNCTION(cuDeviceGetCount) FUNCTION(cuDeviceGet)              \
    FUNCTION(cuDeviceGetName) FUNCTION(cuDeviceGetAttribute) FUNCTION(cuDevicePrimaryCtxRetain)               \
    FUNCTION(cuDevicePrimaryCtxRelease) FUNCTION(cuCtxGetCurrent) FUNCTION(cuCtxGetDevice)                    \
    FUNCTION(cuCtxPushCurrent) FUNCTION(cuCtxPopCurrent) FUNCTION(cuCtxSynchronize) FUNCTION(cuModuleLoadData) \
    FUNCTION(cuModuleUnload) FUNCTION(cuModuleGetFunction) FUNCTION(cuFuncSetAttribute) FUNCTION(cuMemAlloc)   \
    FUNCTION(cuMemFree) FUNCTION(cuMemcpyHtoD) FUNCTION(cuMemcpyDtoH) FUNCTION(cuMemsetD8)                     \
    FUNCTION(cuStreamSynchronize) FUNCTION(cuLaunchKernel)

struct Driver {
#define QCONV_MEMBER(name) decltype(&::name) name##_ = nullptr;
    QCONV_DRIVER(QCONV_MEMBER)
#undef QCONV_MEMBER
    // Available since CUDA 12, and needed only by kernels that take tensor maps.
    decltype(&::cuTensorMapEncodeTiled) encode_tiled = nullptr;
    decltype(&::cuTensorMapEncodeIm2col) encode_im2col = nullptr;

    Driver() {
        void* library = dlopen("libcuda.so.1", RTLD_NOW);
        if (library == nullptr)
            throw Failure{QCONV_NO_DEVICE, "libcuda.so.1 cannot be loaded: install NVIDIA's driver"};
#define QCONV_LOAD(name) load(library, QCONV_EXPORTED(name), name##_);
        QCONV_DRIVER(QCONV_LOAD)
#undef QCONV_LOAD
        encode_tiled = reinterpret_cast<decltype(encode_tiled)>(dlsym(library, "cuTensorMapEncodeTiled"));
        encode_im2col = reinterpret_cast<decltype(encode_im2col)>(dlsym(library, "cuTensorMapEncodeIm2col"));
        check(cuInit_(0), QCONV_NO_DEVICE, "cuInit");
    }

    void check(CUresult result, qconv_status status, const char* what) const {
        if (result == CUDA_SUCCESS) return;
        const char* text = "unknown";
        cuGetErrorString_(result, &text);
        throw Failure{result == CUDA_ERROR_OUT_OF_MEMORY ? QCONV_NO_MEMORY : status,
                      std::string(what) + ": CUDA error " + std::to_string(result) + ", " + text};
    }

  private:
    template <typename Function>
    static void load(void* library, const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (function == nullptr)
            throw Failure{QCONV_NO_DEVICE, std::string("the driver has no ") + name + ": install a newer one"};
    }
};

// Loaded once. After a failure, the next call tries again.
inline const Driver& driver() {
    static const Driver only;
    return only;
}

struct Function {
    CUfunction handle;
};

class Device {
  public:
    explicit Device(int index) {
        int count = 0;
        check(driver().cuDeviceGetCount_(&count), QCONV_NO_DEVICE, "cuDeviceGetCount");
        if (index < 0 || index >= count)
            throw Failure{QCONV_NO_DEVICE, "there is no CUDA device " + std::to_string(index) + ": the driver has " +
                                               std::to_string(count)};
        check(driver().cuDeviceGet_(&device_, index), QCONV_NO_DEVICE, "cuDeviceGet");
        char name[256] = "";
        check(driver().cuDeviceGetName_(name, sizeof name - 1, device_), QCONV_NO_DEVICE, "cuDeviceGetName");
        name_ = name;
        major_ = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        minor_ = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        CUcontext current = nullptr;
        CUdevice its_device;
        if (driver().cuCtxGetCurrent_(&current) == CUDA_SUCCESS && current != nullptr &&
            driver().cuCtxGetDevice_(&its_device) == CUDA_SUCCESS && its_device == device_) {
            context_ = current;
            return;
        }
        check(driver().cuDevicePrimaryCtxRetain_(&context_, device_), QCONV_NO_DEVICE, "cuDevicePrimaryCtxRetain");
        is_retained_ = true;
    }
    Device(const Device&) = delete;
    ~Device() {
        give_back([this] {
            for (CUmodule each : modules_) driver().cuModuleUnload_(each);
        });
        if (is_retained_) driver().cuDevicePrimaryCtxRelease_(device_);
    }

    std::string name() const { return name_; }

    // Code for sm_86 runs on 8.6 and later 8.x; code for sm_90a only on 9.0. The latest that runs is the best.
    int rank(const char* target) const {
        if (strncmp(target, "sm_", 3) != 0) return 0;
        const long number = strtol(target + 3, nullptr, 10);
        const int major = static_cast<int>(number / 10), minor = static_cast<int>(number % 10);
        const bool is_specific = target[strlen(target) - 1] == 'a';
        const bool runs = major == major_ && (is_specific ? minor == minor_ : minor <= minor_);
        return runs ? 1 + minor : 0;
    }

    std::vector<Function> load(const Kernel& kernel) {
        const Current current(*this);
        CUmodule module;
        check(driver().cuModuleLoadData_(&module, kernel.binary.first), QCONV_LAUNCH_FAILED,
              "the binary cannot be loaded; export it anew for this device");
        modules_.push_back(module);
        std::vector<Function> functions;
        for (const Launch& launch : kernel.launches) {
            CUfunction handle;
            check(driver().cuModuleGetFunction_(&handle, module, launch.symbol), QCONV_LAUNCH_FAILED, launch.symbol);
            // More shared memory per block has to be requested.
            if (launch.smem_bytes > 48 * 1024)
                check(driver().cuFuncSetAttribute_(handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                   static_cast<int>(launch.smem_bytes)),
                      QCONV_NO_KERNEL, "a kernel needs more shared memory than this device has");
            functions.push_back({handle});
        }
        return functions;
    }

    void* allocate(size_t bytes) {
        const Current current(*this);
        CUdeviceptr address = 0;
        check(driver().cuMemAlloc_(&address, bytes > 0 ? bytes : 1), QCONV_NO_MEMORY, "cuMemAlloc");
        return reinterpret_cast<void*>(address);
    }
    void release(void* memory) noexcept {
        give_back([memory] { driver().cuMemFree_(reinterpret_cast<CUdeviceptr>(memory)); });
    }
    // A copy from pageable memory returns when that memory has been read, not when the copy is complete. A launch on a
    // stream that does not synchronize with the legacy stream, which copies, could run before it.
    void upload(void* to, const void* from, size_t bytes) {
        const Current current(*this);
        check(driver().cuMemcpyHtoD_(reinterpret_cast<CUdeviceptr>(to), from, bytes), QCONV_LAUNCH_FAILED, "cuMemcpyHtoD");
        check(driver().cuStreamSynchronize_(CU_STREAM_LEGACY), QCONV_LAUNCH_FAILED, "cuStreamSynchronize");
    }
    void download(void* to, const void* from, size_t bytes) {
        const Current current(*this);
        check(driver().cuMemcpyDtoH_(to, reinterpret_cast<CUdeviceptr>(from), bytes), QCONV_LAUNCH_FAILED, "cuMemcpyDtoH");
    }
    void zero(void* memory, size_t bytes) {
        const Current current(*this);
        check(driver().cuMemsetD8_(reinterpret_cast<CUdeviceptr>(memory), 0, bytes), QCONV_LAUNCH_FAILED, "cuMemsetD8");
    }
    void synchronize() {
        const Current current(*this);
        check(driver().cuCtxSynchronize_(), QCONV_LAUNCH_FAILED, "a kernel failed");
    }

    void encode(const TensorMap& map, uint64_t address, unsigned char* into) {
        if (driver().encode_tiled == nullptr || driver().encode_im2col == nullptr)
            throw Failure{QCONV_NO_DEVICE, "the driver encodes no tensor maps: install one of CUDA 12 or later"};
        if (address % 16 != 0) refuse("an array of a tensor map needs 16-byte alignment: copy it");
        const Current current(*this);
        const auto made = reinterpret_cast<CUtensorMap*>(into);
        const auto type = static_cast<CUtensorMapDataType>(map.type);
        const auto swizzle = static_cast<CUtensorMapSwizzle>(map.swizzle);
        const auto promotion = static_cast<CUtensorMapL2promotion>(map.l2_promotion);
        const auto array = reinterpret_cast<void*>(address);
        const CUresult result =
            map.is_im2col
                ? driver().encode_im2col(made, type, map.rank, array, map.dims, map.strides, map.lower, map.upper,
                                         map.channels, map.pixels, map.element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                         swizzle, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
                : driver().encode_tiled(made, type, map.rank, array, map.dims, map.strides, map.box,
                                        map.element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
                                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        check(result, QCONV_LAUNCH_FAILED, "the driver refuses a tensor map");
    }

    void launch(const Function& function, const Kernel&, const Launch& launch, void* arguments, qconv_stream stream) {
        const Current current(*this);
        void* parameters[] = {arguments};
        check(driver().cuLaunchKernel_(function.handle, launch.grid[0], launch.grid[1], launch.grid[2], launch.threads,
                                       1, 1, launch.smem_bytes, static_cast<CUstream>(stream), parameters, nullptr),
              QCONV_LAUNCH_FAILED, launch.symbol);
    }

  private:
    // Runs `work` in the device's context. If the context is gone (at the end of the process, or after a reset), so is
    // everything that it owned.
    template <typename Work>
    void give_back(Work work) const noexcept {
        try {
            const Current current(*this);
            work();
        } catch (const Failure&) {
        }
    }

    // Makes the device's context current, if another one is.
    class Current {
      public:
        explicit Current(const Device& device) {
            CUcontext current = nullptr;
            driver().cuCtxGetCurrent_(&current);
            is_pushed_ = current != device.context_;
            if (is_pushed_) device.check(driver().cuCtxPushCurrent_(device.context_), QCONV_NO_DEVICE, "cuCtxPushCurrent");
        }
        ~Current() {
            CUcontext popped;
            if (is_pushed_) driver().cuCtxPopCurrent_(&popped);
        }

      private:
        bool is_pushed_;
    };

    void check(CUresult result, qconv_status status, const char* what) const {
        driver().check(result, status, what);
    }
    int attribute(CUdevice_attribute which) const {
        int value = 0;
        check(driver().cuDeviceGetAttribute_(&value, which, device_), QCONV_NO_DEVICE, "cuDeviceGetAttribute");
        return value;
    }

    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    bool is_retained_ = false;
    int major_ = 0, minor_ = 0;
    std::string name_;
    std::vector<CUmodule> modules_;
};

}  // namespace qconv
