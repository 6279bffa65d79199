// The declarations of HIP's header that the launcher uses, for machines without ROCm. Only
// tests/instances/library/test_device_hip.py builds the library against them: its numbers are HIP's, its struct is not.
#pragma once

#include <cstddef>

extern "C" {

typedef enum hipError_t { hipSuccess = 0, hipErrorOutOfMemory = 2 } hipError_t;
typedef enum hipMemcpyKind {
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3
} hipMemcpyKind;
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void*)0x01)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void*)0x02)
#define HIP_LAUNCH_PARAM_END ((void*)0x03)
typedef struct ihipModule_t* hipModule_t;
typedef struct ihipModuleSymbol_t* hipFunction_t;
typedef struct ihipStream_t* hipStream_t;
typedef struct hipDeviceProp_t {
    char name[256];
    char gcnArchName[256];
} hipDeviceProp_t;

hipError_t hipInit(unsigned flags);
const char* hipGetErrorString(hipError_t error);
hipError_t hipGetDeviceCount(int* count);
hipError_t hipGetDevice(int* device);
hipError_t hipSetDevice(int device);
#define hipGetDeviceProperties hipGetDevicePropertiesR0600
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipModuleLoadData(hipModule_t* module, const void* image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name);
hipError_t hipMalloc(void** memory, size_t bytes);
hipError_t hipFree(void* memory);
hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemsetAsync(void* memory, int byte, size_t bytes, hipStream_t stream);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                                 unsigned threads_y, unsigned threads_z, unsigned smem_bytes, hipStream_t stream,
                                 void** parameters, void** extra);
}

#if defined(__cplusplus) && !defined(__HIP_DISABLE_CPP_FUNCTIONS__)
template <typename T>
static inline hipError_t hipMalloc(T** memory, size_t bytes) {
    return hipMalloc((void**)memory, bytes);
}
#endif
