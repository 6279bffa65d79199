// A driver without a GPU: it logs its calls, and device memory is host memory. Built as libcuda.so.1, for
// test_device_cuda.py and test_qconv_launcher.py of tests/instances/library.
#include <cuda.h>

#include <atomic>

#include "cubin_parameters.h"
#include "stub_log.h"

namespace {

int contexts[2];  // of the devices; QCONV_STUB_DEVICES says how many there are
CUcontext of_device(CUdevice device) { return reinterpret_cast<CUcontext>(contexts + device); }
thread_local CUcontext before[8], current;  // those of this thread, the last one pushed being current
thread_local int pushed;
bool is_gone;
// Calls that take memory of the device, or wait.
std::atomic<int> allocations, waits;

int device_count() {
    const char* const count = getenv("QCONV_STUB_DEVICES");
    return count == nullptr ? 1 : atoi(count);
}

struct Copy {
    void* to;
    std::vector<char> bytes;
};
std::vector<Copy> copies;

// Logs a tensor map as its address and a digest of everything else, which `describe` returns.
template <typename Describe>
CUresult encoded(CUtensorMap* map, void* address, Describe describe) {
    memset(map, 0, sizeof *map);
    memcpy(map, &address, sizeof address);
    if (log_file() == nullptr) return CUDA_SUCCESS;
    const std::string rest = describe();
    uint64_t digest = 0xCBF29CE484222325u;
    for (unsigned char byte : rest) digest = (digest ^ byte) * 0x100000001B3u;
    memcpy(reinterpret_cast<char*>(map) + 8, &digest, sizeof digest);
    return CUDA_SUCCESS;
}

std::string array_text(CUtensorMapDataType type, cuuint32_t rank, const cuuint64_t* dims, const cuuint64_t* strides,
                       const cuuint32_t* steps) {
    return std::to_string(type) + " " + std::to_string(rank) + " " + hexadecimal(dims, 8 * rank) + " " +
           hexadecimal(strides, 8 * (rank - 1)) + " " + hexadecimal(steps, 4 * rank);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult, const char** text) { return *text = "a stub's error", CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) { return *count = device_count(), CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int index) { return *device = index, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
    snprintf(name, size, "NVIDIA H200");
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
    // An H200's.
    static const std::map<int, int> known = {{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
                                             {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
                                             {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
                                             {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024}};
    const bool is_major = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    const char* const number = getenv(is_major ? "QCONV_STUB_MAJOR" : "QCONV_STUB_MINOR");
    *value = known.count(which) != 0 ? known.at(which) : number != nullptr ? atoi(number) : 0;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* made, CUdevice device) { return *made = of_device(device), CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* found) { return *found = current, CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice* device) { return *device = current == of_device(1) ? 1 : 0, CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext context) {
    if (is_gone) return CUDA_ERROR_DEINITIALIZED;
    before[pushed++] = current;
    return current = context, CUDA_SUCCESS;
}
int qconv_stub_allocations(void) { return allocations; }
int qconv_stub_waits(void) { return waits; }
// Simulates the end of the process, after which a driver rejects calls.
void qconv_stub_end(void) { is_gone = true; }
CUresult cuCtxPopCurrent(CUcontext* popped) {
    *popped = current;
    current = before[--pushed];
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    *module = static_cast<CUmodule>(const_cast<void*>(image));
    say("load %s", hexadecimal(image, 64).c_str());
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    const cubin::Parameters found = cubin::parameters(reinterpret_cast<const char*>(module), name);
    if (found.count > 1) return CUDA_ERROR_NOT_FOUND;  // a launch gives the address of one
    functions.push_back({name, found.bytes});
    *function = reinterpret_cast<CUfunction>(functions.size());
    return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
    return *value = which == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? 48 : 0, CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
    say("attribute %s %d %d", functions[reinterpret_cast<size_t>(function) - 1].name.c_str(), which, value);
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
    ++allocations;
    void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(memory, 0xA5, bytes);
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
    free(reinterpret_cast<void*>(address));
    return CUDA_SUCCESS;
}
// Copies as late as allowed: the source was read, and nothing was written.
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
    const char* first = static_cast<const char*>(from);
    copies.push_back({reinterpret_cast<void*>(to), {first, first + bytes}});
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
    ++waits;
    say("synchronize %p", static_cast<void*>(stream));
    if (stream != CU_STREAM_LEGACY && stream != nullptr) return CUDA_SUCCESS;
    for (const Copy& copy : copies) memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    copies.clear();
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
    cuStreamSynchronize(CU_STREAM_LEGACY);
    memcpy(to, reinterpret_cast<void*>(from), bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
    memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char byte, size_t bytes, CUstream stream) {
    say("fill %d %zu %p", byte, bytes, static_cast<void*>(stream));
    memset(reinterpret_cast<void*>(address), byte, bytes);
    return CUDA_SUCCESS;
}
// Packed arguments are refused: a GPU's kernel would look for a struct with tensor maps behind where they begin.
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                        unsigned smem_bytes, CUstream stream, void** parameters, void** extra) {
    if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_count() > 1) say("context %d", current == of_device(1) ? 1 : 0);
    say_launch(reinterpret_cast<size_t>(function), {x, y, z, threads, smem_bytes}, stream, parameters, extra);
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
    if (extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig& c = *config;
    const bool overlaps = c.numAttrs == 1 && c.attrs->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                          c.attrs->value.programmaticStreamSerializationAllowed == 1;
    say_launch(reinterpret_cast<size_t>(function), {c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.sharedMemBytes},
               c.hStream, parameters, extra, overlaps ? "overlaps" : "alone");
    return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    return encoded(map, address, [&] { return "tiled " + array_text(type, rank, dims, strides, steps) + hexadecimal(box, 4 * rank) +
                                     " " + std::to_string(interleave) + std::to_string(swizzle) +
                                     std::to_string(promotion) + std::to_string(fill); });
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    return encoded(map, address, [&] { return "im2col " + array_text(type, rank, dims, strides, steps) + " " +
                                     hexadecimal(lower, 4 * (rank - 2)) + hexadecimal(upper, 4 * (rank - 2)) + " " +
                                     std::to_string(channels) + " " + std::to_string(pixels) + " " +
                                     std::to_string(interleave) + std::to_string(swizzle) + std::to_string(promotion) +
                                     std::to_string(fill); });
}

}  // extern "C"
