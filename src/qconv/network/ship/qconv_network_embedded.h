// The whole library as a header, for programs that build none: the files of this folder in one. Copy the folder, and give
// the library a source file of its own:
//
//     #define QCONV_NETWORK_CUDA  // or QCONV_NETWORK_HIP, or neither: it runs on the CPU in any case
//     #define QCONV_NETWORK_IMPLEMENTATION
//     #include "include/qconv_network_embedded.h"
//
// All others include it, or qconv_network.hpp, without these lines. The include path of that file has the driver's header,
// cuda.h or hip/hip_runtime_api.h; link -ldl -pthread. The build by CMake serves both vendors in one library.
#ifndef QCONV_NETWORK_EMBEDDED_H
#define QCONV_NETWORK_EMBEDDED_H

#include "qconv_network.hpp"

#ifdef QCONV_NETWORK_IMPLEMENTATION
#if defined(QCONV_NETWORK_CUDA) && defined(QCONV_NETWORK_HIP)
#error "the header is of one vendor at a time: leave QCONV_NETWORK_CUDA or QCONV_NETWORK_HIP out, or build by CMake"
#endif
#include "../src/qconv_network.cpp"
#include "../src/qconv_shipped.cpp"
#include "../src/qconv_engine_cpu.cpp"
#ifdef QCONV_NETWORK_CUDA
#include "../src/qconv_engine_cuda.cpp"
#endif
#ifdef QCONV_NETWORK_HIP
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include "../src/qconv_engine_hip.cpp"
#endif
#endif

#endif
