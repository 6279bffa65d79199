// An NVIDIA GPU through the CUDA driver, which is loaded when a device is opened: a program linked with this library
// also starts on a machine without the driver, and reports what is missing.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
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
    FUNCTION(cuCtxPushCurrent) FUNCTION(cuCtxPopCurrent) FUNCTION(cuModuleLoadData) FUNCTION(cuModuleUnload)  \
    FUNCTION(cuModuleGetFunction) FUNCTION(cuFuncGetAttribute) FUNCTION(cuFuncSetAttribute)                   \
    FUNCTION(cuMemAlloc) FUNCTION(cuMemFree) FUNCTION(cuMemcpyHtoD) FUNCTION(cuMemcpyDtoH)                    \
    FUNCTION(cuMemcpyDtoDAsync) FUNCTION(cuMemsetD8Async) FUNCTION(cuStreamSynchronize) FUNCTION(cuLaunchKernel)

struct Driver {
#define QCONV_MEMBER(name) decltype(&::name) name##_ = nullptr;
    QCONV_DRIVER(QCONV_MEMBER)
#undef QCONV_MEMBER
    // Available since CUDA 12, and needed only by kernels that take tensor maps.
    decltype(&::cuTensorMapEncodeTiled) encode_tiled = nullptr;
    decltype(&::cuTensorMapEncodeIm2col) encode_im2col = nullptr;
    // Available since CUDA 11.8. Without it, no launch overlaps the one before it.
    decltype(&::cuLaunchKernelEx) launch_extended = nullptr;

    Driver() {
        library_ = dlopen("libcuda.so.1", RTLD_NOW);
        if (library_ == nullptr)
            throw Failure{QCONV_NO_DEVICE, "libcuda.so.1 cannot be loaded: install NVIDIA's driver"};
#define QCONV_LOAD(name) load(QCONV_EXPORTED(name), name##_);
        QCONV_DRIVER(QCONV_LOAD)
#undef QCONV_LOAD
        encode_tiled = reinterpret_cast<decltype(encode_tiled)>(dlsym(library_, "cuTensorMapEncodeTiled"));
        encode_im2col = reinterpret_cast<decltype(encode_im2col)>(dlsym(library_, "cuTensorMapEncodeIm2col"));
        launch_extended = reinterpret_cast<decltype(launch_extended)>(dlsym(library_, "cuLaunchKernelEx"));
        check(cuInit_(0), QCONV_NO_DEVICE, "NVIDIA's driver finds no GPU that works; nvidia-smi says what it sees; cuInit");
    }

    void check(CUresult result, qconv_status status, const char* what) const {
        if (result == CUDA_SUCCESS) return;
        const char* text = "unknown";
        cuGetErrorString_(result, &text);
        throw Failure{result == CUDA_ERROR_OUT_OF_MEMORY ? QCONV_NO_MEMORY : status,
                      std::string(what) + ": CUDA error " + std::to_string(result) + ", " + text};
    }

    // Finds an exported function, whose name is versioned.
    template <typename Function>
    void load(const char* name, Function& function) const {
        function = reinterpret_cast<Function>(dlsym(library_, name));
        if (function == nullptr)
            throw Failure{QCONV_NO_DEVICE, std::string("the driver has no ") + name + ": install a newer one"};
    }

  private:
    void* library_ = nullptr;
};

// Loaded once. After a failure, the next call tries again.
inline const Driver& driver() {
    static const Driver only;
    return only;
}

struct Function {
    CUfunction handle;
    unsigned overlap_bytes;  // dynamic shared memory of a launch that overlaps
};

// The limits of a GPU on resident blocks, besides registers and threads.
//
// An overlapping kernel lets the next one begin as soon as it begins itself. Of a sequence of short launches a dozen may
// then be resident, and the hardware places the blocks of a late one wherever there is room: several share one
// multiprocessor while others stay idle. So a launch requests the shared memory that its blocks would leave unused, and
// the next one begins only where blocks of this one end.
struct Multiprocessors {
    static constexpr unsigned UNIT = 128;      // bytes of shared memory per allocation unit
    static constexpr unsigned GROUP_SIZE = 16;  // multiprocessors of a group, at least; a cluster lies in one group
    unsigned count, smem_bytes, most_bytes, reserved_bytes;  // per multiprocessor, per block at most, and per block besides

    // Blocks per multiprocessor, at least, with which all blocks of the launch are resident together.
    unsigned blocks_of_each(const Launch& launch) const {
        // Multiprocessors per group that whole clusters leave idle. Clusters of two leave none.
        const unsigned lost = launch.cluster > 2 ? count / GROUP_SIZE * (launch.cluster - 2) : 0;
        const uint64_t blocks = static_cast<uint64_t>(launch.grid[0]) * launch.grid[1] * launch.grid[2];
        return static_cast<unsigned>((blocks + lost + count - 1) / count);
    }

    // The dynamic shared memory with which a multiprocessor holds no more blocks of the launch than that.
    unsigned room(const Launch& launch, unsigned static_bytes) const {
        const unsigned whole = smem_bytes / blocks_of_each(launch);
        const unsigned share = std::min(whole > reserved_bytes ? whole - reserved_bytes : 0, most_bytes) / UNIT * UNIT;
        return std::max(launch.smem_bytes, share > static_bytes ? share - static_bytes : 0);
    }
};

class Device {
  public:
    static int count() {
        int count = 0;
        driver().check(driver().cuDeviceGetCount_(&count), QCONV_NO_DEVICE, "cuDeviceGetCount");
        return count;
    }

    explicit Device(int index) {
        if (index < 0 || index >= count())
            throw Failure{QCONV_NO_DEVICE, "there is no CUDA device " + std::to_string(index) + ": the driver has " +
                                               std::to_string(count()) + ", counted from 0"};
        check(driver().cuDeviceGet_(&device_, index), QCONV_NO_DEVICE, "cuDeviceGet");
        char name[256] = "";
        check(driver().cuDeviceGetName_(name, sizeof name - 1, device_), QCONV_NO_DEVICE, "cuDeviceGetName");
        name_ = name;
        major_ = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        minor_ = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        multiprocessors_ = {limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                            limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
                            limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                            limit(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)};
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
            if (launch.smem_bytes > DEFAULT_LIMIT) allow(handle, launch.smem_bytes);
            functions.push_back({handle, launch.overlaps ? overlap_bytes(handle, launch) : launch.smem_bytes});
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
    void fill(void* memory, int byte, size_t bytes, qconv_stream stream) {
        const Current current(*this);
        check(driver().cuMemsetD8Async_(reinterpret_cast<CUdeviceptr>(memory), static_cast<unsigned char>(byte), bytes,
                                        static_cast<CUstream>(stream)),
              QCONV_LAUNCH_FAILED, "cuMemsetD8Async");
    }
    // Within the device; returns when the copy is queued.
    void copy(void* to, const void* from, size_t bytes, qconv_stream stream) {
        const Current current(*this);
        check(driver().cuMemcpyDtoDAsync_(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                                          static_cast<CUstream>(stream)),
              QCONV_LAUNCH_FAILED, "cuMemcpyDtoDAsync");
    }
    void synchronize(qconv_stream stream) {
        const Current current(*this);
        check(driver().cuStreamSynchronize_(static_cast<CUstream>(stream)), QCONV_LAUNCH_FAILED, "a kernel failed");
    }

    // Runs `work` with this context current.
    template <typename Work>
    void within(Work work) const {
        const Current current(*this);
        work();
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

    // The arguments are the kernel's only parameter, and the driver is given its address. As a packed buffer
    // (CU_LAUNCH_PARAM_BUFFER_POINTER) they would lie where the space of parameters begins; a struct with tensor maps is
    // aligned, and lies behind that. With `overlap`, a kernel that `overlaps` may begin before the launch before it has
    // ended.
    void launch(const Function& function, const Kernel&, const Launch& launch, void* arguments, size_t,
                qconv_stream stream, bool overlap) {
        const Current current(*this);
        void* parameters[] = {arguments};
        const auto on = static_cast<CUstream>(stream);
        const unsigned(&grid)[3] = launch.grid;
        if (!overlap || !launch.overlaps || driver().launch_extended == nullptr) {
            check(driver().cuLaunchKernel_(function.handle, grid[0], grid[1], grid[2], launch.threads, 1, 1,
                                           launch.smem_bytes, on, parameters, nullptr),
                  QCONV_LAUNCH_FAILED, launch.symbol);
            return;
        }
        CUlaunchAttribute early = {};
        early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        early.value.programmaticStreamSerializationAllowed = 1;
        CUlaunchConfig config = {};
        config.gridDimX = grid[0], config.gridDimY = grid[1], config.gridDimZ = grid[2];
        config.blockDimX = launch.threads, config.blockDimY = config.blockDimZ = 1;
        config.sharedMemBytes = function.overlap_bytes;
        config.hStream = on;
        config.attrs = &early;
        config.numAttrs = 1;
        check(driver().launch_extended(&config, function.handle, parameters, nullptr), QCONV_LAUNCH_FAILED, launch.symbol);
    }

  private:
    static constexpr unsigned DEFAULT_LIMIT = 48 * 1024;

    // Allows a function that much dynamic shared memory per block.
    void allow(CUfunction handle, unsigned bytes) const {
        check(driver().cuFuncSetAttribute_(handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           static_cast<int>(bytes)),
              QCONV_NO_KERNEL, "a kernel needs more shared memory than this device has");
    }
    unsigned overlap_bytes(CUfunction handle, const Launch& launch) const {
        int static_bytes = 0;
        check(driver().cuFuncGetAttribute_(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle),
              QCONV_LAUNCH_FAILED, launch.symbol);
        const unsigned room = multiprocessors_.room(launch, static_cast<unsigned>(static_bytes));
        allow(handle, room);
        return room;
    }

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

    unsigned limit(CUdevice_attribute which) const { return static_cast<unsigned>(attribute(which)); }

    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    bool is_retained_ = false;
    int major_ = 0, minor_ = 0;
    Multiprocessors multiprocessors_ = {};
    std::string name_;
    std::vector<CUmodule> modules_;
};

}  // namespace qconv
