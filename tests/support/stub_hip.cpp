// HIP's runtime without a GPU: it logs its calls, and device memory is host memory. Built as libamdhip64.so, for
// tests/instances/library/test_device_hip.py.
#include <hip/hip_runtime_api.h>

#include "stub_log.h"

extern "C" {

hipError_t hipInit(unsigned) { return hipSuccess; }
const char* hipGetErrorString(hipError_t) { return "a stub's error"; }
hipError_t hipGetDeviceCount(int* count) { return *count = 1, hipSuccess; }
hipError_t hipGetDevice(int* device) { return *device = 0, hipSuccess; }
hipError_t hipSetDevice(int) { return hipSuccess; }
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
    snprintf(properties->name, sizeof properties->name, "AMD Radeon RX 7900 XTX");
    snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "%s:sramecc-:xnack-", getenv("QCONV_STUB_ARCH"));
    return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipModuleLoadData(hipModule_t* module, const void*) {
    *module = nullptr;
    say("load");
    return hipSuccess;
}
hipError_t hipModuleUnload(hipModule_t) { return hipSuccess; }
hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t, const char* name) {
    functions.push_back({name, 0});
    *function = reinterpret_cast<hipFunction_t>(functions.size());
    return hipSuccess;
}
hipError_t hipMalloc(void** memory, size_t bytes) {
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(*memory, 0xA5, bytes);
    return hipSuccess;
}
hipError_t hipFree(void* memory) { return free(memory), hipSuccess; }
hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind) {
    return memcpy(to, from, bytes), hipSuccess;
}
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind, hipStream_t) {
    return memcpy(to, from, bytes), hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int byte, size_t bytes, hipStream_t) {
    return memset(memory, byte, bytes), hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                                 unsigned, unsigned smem_bytes, hipStream_t stream, void** parameters, void** extra) {
    say_launch(reinterpret_cast<size_t>(function), {x, y, z, threads, smem_bytes}, stream, parameters, extra);
    return hipSuccess;
}

}  // extern "C"
