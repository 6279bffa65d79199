// What the five kernels share on the host: tensor maps, a plain kernel to compare with, and the timing.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include "conv.cuh"

#define CHECK(call)                                                                                       \
    do {                                                                                                  \
        if (const auto status = (call); int(status) != 0) {                                               \
            std::printf("%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, int(status));                  \
            std::exit(1);                                                                                 \
        }                                                                                                 \
    } while (false)

template <class Function>
Function driver_function(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
    CHECK(found);
    return reinterpret_cast<Function>(function);
}

// The input as im2col reads it: `pixels` output positions of `channels` channels, for one tap of the filter.
inline CUtensorMap im2col_map(const Conv& conv, const int8_t* x, int channels, int pixels) {
    static const auto encode = driver_function<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
    const cuuint64_t c = conv.c, dims[] = {c, cuuint64_t(conv.w), cuuint64_t(conv.h), cuuint64_t(conv.n)};
    const cuuint64_t strides[] = {c, c * conv.w, c * conv.w * conv.h};
    // The input positions under the first tap, width before height: they go from -pad to this far beyond the image's
    // last column and row.
    const int lower[] = {-conv.pad, -conv.pad};
    const int upper[] = {conv.pad - conv.dilation * (conv.s - 1), conv.pad - conv.dilation * (conv.r - 1)};
    const cuuint32_t steps[] = {1, cuuint32_t(conv.stride), cuuint32_t(conv.stride), 1};
    const auto swizzle = channels == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
    CUtensorMap map;
    CHECK(encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<int8_t*>(x), dims, strides, lower, upper, channels,
                 pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

// The weights as a matrix of k rows and r * s * c columns.
inline CUtensorMap weight_map(const Conv& conv, const int8_t* weight, int channels, int rows) {
    static const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    const cuuint64_t reduction = cuuint64_t(conv.r) * conv.s * conv.c, dims[] = {reduction, cuuint64_t(conv.k)};
    const cuuint32_t box[] = {cuuint32_t(channels), cuuint32_t(rows)}, steps[] = {1, 1};
    const auto swizzle = channels == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
    CUtensorMap map;
    CHECK(encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<int8_t*>(weight), dims, &reduction, box, steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

// The input as boxes of whole pixels, `width` x `height` of one image.
inline CUtensorMap box_map(const Conv& conv, const int8_t* x, int width, int height) {
    static const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
    const cuuint64_t c = conv.c, dims[] = {c, cuuint64_t(conv.w), cuuint64_t(conv.h), cuuint64_t(conv.n)};
    const cuuint64_t strides[] = {c, c * conv.w, c * conv.w * conv.h};
    const cuuint32_t box[] = {cuuint32_t(c), cuuint32_t(width), cuuint32_t(height), 1}, steps[] = {1, 1, 1, 1};
    const auto swizzle = conv.c == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
    CUtensorMap map;
    CHECK(encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<int8_t*>(x), dims, strides, box, steps,
                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
}

__device__ inline uint32_t hashed(uint32_t a) {
    a = (a ^ 61) ^ (a >> 16), a *= 9, a ^= a >> 4, a *= 0x27d4eb2d;
    return a ^ (a >> 15);
}

// Random bytes over the whole range.
__global__ void draw(int8_t* to, size_t count, uint32_t seed) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += step) {
        to[i] = static_cast<int8_t>(hashed(uint32_t(i) * 2654435761u + hashed(seed)) >> 8);
    }
}

// Scales that spread the outputs over the whole int8 range and beyond: a sum's deviation is 74^2 * sqrt(r * s * c).
__global__ void draw_channels(Conv conv, float* scale, int* bias) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= conv.k) return;
    const float deviation = 5476.0f * sqrtf(float(conv.r * conv.s * conv.c));
    scale[k] = 60.0f / deviation * (0.5f + (hashed(k) & 0xffff) / 65536.0f);
    bias[k] = int(hashed(k + 77777) % 40001) - 20000;
}

__global__ void repack(Conv conv, const int8_t* weight, int8_t* repacked, bool channels_are_rows) {
    const int reduction = conv.r * conv.s * conv.c, to = blockIdx.x;
    const int from = channels_are_rows ? channel_of_row(to) : channel_of_column(to);
    for (int i = threadIdx.x; i < reduction; i += blockDim.x) {
        repacked[size_t(to) * reduction + i] = weight[size_t(from) * reduction + i];
    }
}

// One thread for one output: nothing here can be wrong in the way that a kernel of tiles can.
__global__ void compare(Conv conv, Buffers buffers, unsigned long long* wrong) {
    const int k = blockIdx.y * 16 + threadIdx.x % 16, pixel = blockIdx.x * 16 + threadIdx.x / 16;
    if (pixel >= conv.pixels() || k >= conv.k) return;
    const int q = pixel % conv.q(), p = pixel / conv.q() % conv.p(), n = pixel / conv.q() / conv.p();
    int sum = 0;
    for (int r = 0; r < conv.r; ++r) {
        for (int s = 0; s < conv.s; ++s) {
            const int h = p * conv.stride - conv.pad + r * conv.dilation;
            const int w = q * conv.stride - conv.pad + s * conv.dilation;
            if (h < 0 || h >= conv.h || w < 0 || w >= conv.w) continue;
            const size_t pixel_at = ((size_t(n) * conv.h + h) * conv.w + w) * conv.c;
            const size_t weight_at = ((size_t(k) * conv.r + r) * conv.s + s) * conv.c;
            const int4* a = reinterpret_cast<const int4*>(buffers.x + pixel_at);
            const int4* b = reinterpret_cast<const int4*>(buffers.weight + weight_at);
            for (int c = 0; c < conv.c / 16; ++c) {
                const int4 x = __ldg(a + c), y = __ldg(b + c);
                sum = __dp4a(x.w, y.w, __dp4a(x.z, y.z, __dp4a(x.y, y.y, __dp4a(x.x, y.x, sum))));
            }
        }
    }
    const float scaled = rintf(__fmul_rn(float(sum + buffers.bias[k]), buffers.scale[k]));
    const int expected = int(fminf(fmaxf(scaled, -128.0f), 127.0f)), got = buffers.y[size_t(pixel) * conv.k + k];
    if (got != expected && atomicAdd(wrong, 1) < 8) {
        printf("  n %d p %d q %d k %d: %d, not %d (sum %d)\n", n, p, q, k, got, expected, sum);
    }
}

// The cycles of a multiprocessor and the nanoseconds of the device, before and after what is timed.
struct Stamp {
    long long cycles[256], ns[256];
};

__global__ void stamp(Stamp* to) {
    uint32_t multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(to->ns[multiprocessor]));
    to->cycles[multiprocessor] = clock64();
}

// The mean clock between two stamps, from a multiprocessor that has both; 0 where none has.
inline double megahertz(const Stamp* device_stamps) {
    static Stamp stamps[2];
    CHECK(cudaMemcpy(stamps, device_stamps, sizeof stamps, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; ++i) {
        if (stamps[0].ns[i] && stamps[1].ns[i] > stamps[0].ns[i]) {
            return 1e3 * (stamps[1].cycles[i] - stamps[0].cycles[i]) / (stamps[1].ns[i] - stamps[0].ns[i]);
        }
    }
    return 0;
}

// A launch: a kernel, its arguments, and how it is launched.
struct Launch {
    void (*kernel)(CUtensorMap, CUtensorMap, Conv, Buffers);
    CUtensorMap pixel_map, weight_map;
    Conv conv;
    Buffers buffers;
    dim3 grid;
    int threads, shared_bytes, cluster = 1;
    bool dependent = false;  // it may begin while the launch before still runs

    void operator()(cudaStream_t stream) const {
        cudaLaunchAttribute attributes[2] = {};
        attributes[0].id = cudaLaunchAttributeClusterDimension;
        attributes[0].val.clusterDim = {unsigned(cluster), 1, 1};
        attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[1].val.programmaticStreamSerializationAllowed = dependent;
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
        const cudaLaunchConfig_t config{grid, dim3(threads), size_t(shared_bytes), stream, attributes, 2};
        CHECK(cudaLaunchKernelEx(&config, kernel, pixel_map, weight_map, conv, buffers));
    }
};

// What a file of a kernel gives to be measured: one or more ways to run a convolution.
struct Kernel {
    std::string name;
    bool channels_are_rows;  // how its epilogue wants the weights
    bool (*can_run)(const Conv&);
    Launch (*prepare)(const Conv&, const Buffers&);
};

// Random inputs, and outputs that are poisoned.
inline Buffers draw_buffers(const Conv& conv, uint32_t seed, bool channels_are_rows) {
    Buffers made;
    CHECK(cudaMalloc(&made.x, conv.x_bytes()));
    CHECK(cudaMalloc(&made.weight, conv.w_bytes()));
    CHECK(cudaMalloc(&made.repacked, conv.w_bytes()));
    CHECK(cudaMalloc(&made.y, conv.y_bytes()));
    CHECK(cudaMalloc(&made.scale, conv.k * sizeof(float)));
    CHECK(cudaMalloc(&made.bias, conv.k * sizeof(int)));
    draw<<<1024, 256>>>(made.x, conv.x_bytes(), 2 * seed);
    draw<<<1024, 256>>>(made.weight, conv.w_bytes(), 2 * seed + 1);
    draw_channels<<<(conv.k + 255) / 256, 256>>>(conv, made.scale, made.bias);
    repack<<<conv.k, 256>>>(conv, made.weight, made.repacked, channels_are_rows);
    CHECK(cudaMemset(made.y, 0x5a, conv.y_bytes()));
    CHECK(cudaDeviceSynchronize());
    return made;
}

inline void release(const Buffers& buffers) {
    for (int8_t* bytes : {buffers.x, buffers.weight, buffers.repacked, buffers.y}) CHECK(cudaFree(bytes));
    CHECK(cudaFree(buffers.scale));
    CHECK(cudaFree(buffers.bias));
}

// How many outputs are wrong.
inline unsigned long long wrong_outputs(const Conv& conv, const Buffers& buffers) {
    unsigned long long *device, count;
    CHECK(cudaMalloc(&device, sizeof *device));
    CHECK(cudaMemset(device, 0, sizeof *device));
    compare<<<dim3((conv.pixels() + 15) / 16, (conv.k + 15) / 16), 256>>>(conv, buffers, device);
    CHECK(cudaMemcpy(&count, device, sizeof count, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    return count;
}

struct Timing {
    double median_us, megahertz;
};

// As the tuner times: the median over replays of a graph, whose launches go round all sets of buffers.
inline Timing time_launches(const std::vector<Launch>& launches, int count, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < count; ++i) launches[i % launches.size()](stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&replay, graph, 0));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    Stamp* stamps;
    CHECK(cudaMalloc(&stamps, 2 * sizeof(Stamp)));
    CHECK(cudaMemset(stamps, 0, 2 * sizeof(Stamp)));
    constexpr int WARM_UP = 2, REPEATS = 9;
    std::vector<float> times;
    for (int i = 0; i < WARM_UP + REPEATS; ++i) {
        if (i == WARM_UP) stamp<<<132, 1, 0, stream>>>(stamps);
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaGraphLaunch(replay, stream));
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (i >= WARM_UP) times.push_back(ms * 1000 / count);
    }
    stamp<<<132, 1, 0, stream>>>(stamps + 1);
    CHECK(cudaStreamSynchronize(stream));
    std::sort(times.begin(), times.end());
    const Timing timing{times[REPEATS / 2], megahertz(stamps)};
    CHECK(cudaFree(stamps));
    CHECK(cudaGraphExecDestroy(replay));
    CHECK(cudaGraphDestroy(graph));
    return timing;
}

// Verifies the first and the last set of buffers, once after a single launch and again after the graph's, and times.
// The sets have 200 MB in total, so that no input is still in the cache when its turn comes.
inline void run(const Kernel& kernel, const char* name, const Conv& conv) {
    if (!kernel.can_run(conv)) return;
    const size_t once = conv.x_bytes() + conv.w_bytes() + conv.y_bytes();
    const bool timed = std::strncmp(name, "tiny", 4) != 0;  // the others are only verified
    const int sets = timed ? int((200'000'000 + once - 1) / once) : 2;
    std::vector<Buffers> buffers;
    std::vector<Launch> launches;
    for (int i = 0; i < sets; ++i) {
        buffers.push_back(draw_buffers(conv, i, kernel.channels_are_rows));
        launches.push_back(kernel.prepare(conv, buffers.back()));
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    unsigned long long wrong = 0;
    const int verified[] = {0, sets - 1};
    for (const int i : verified) launches[i](stream);
    CHECK(cudaStreamSynchronize(stream));
    for (const int i : verified) {
        wrong += wrong_outputs(conv, buffers[i]);
        CHECK(cudaMemset(buffers[i].y, 0x5a, conv.y_bytes()));
    }
    CHECK(cudaDeviceSynchronize());
    const Timing timing = time_launches(launches, timed ? std::max(sets, 20) : sets, stream);
    for (const int i : verified) wrong += wrong_outputs(conv, buffers[i]);
    std::printf("{\"kernel\": \"%s\", \"layer\": \"%s\", \"time_us\": %.2f, \"tops\": %.0f, \"wrong\": %llu, "
                "\"sm_mhz\": %.0f}\n",
                kernel.name.c_str(), name, timing.median_us, conv.operations() / timing.median_us * 1e-6, wrong,
                timing.megahertz);
    std::fflush(stdout);
    CHECK(cudaStreamDestroy(stream));
    for (const Buffers& each : buffers) release(each);
}

struct Layer {
    const char* name;
    Conv conv;
};

// 3x3 layers of ResNet-50, VGG-16 and a U-Net, as bench/workloads/peers_h200.csv names them. Those with `tiny` in
// their name are there to find mistakes: borders, strides, dilations, tiles that are not full.
inline const Layer LAYERS[] = {
    {"tiny", {1, 5, 7, 128, 256, 3, 3, 1, 1, 1}},
    {"tiny_1x1", {3, 9, 11, 128, 128, 1, 1, 1, 1, 0}},
    {"tiny_strided", {3, 13, 11, 256, 256, 3, 3, 2, 1, 1}},
    {"tiny_dilated", {2, 19, 17, 128, 512, 3, 5, 1, 2, 3}},
    {"tiny_64", {3, 29, 19, 64, 64, 3, 3, 1, 1, 1}},
    {"rn50_l1_3x3_b256", {256, 56, 56, 64, 64, 3, 3, 1, 1, 1}},
    {"rn50_l1_3x3", {32, 56, 56, 64, 64, 3, 3, 1, 1, 1}},
    {"vgg_conv4", {32, 28, 28, 512, 512, 3, 3, 1, 1, 1}},
    {"vgg_conv3", {32, 56, 56, 256, 256, 3, 3, 1, 1, 1}},
    {"unet_big", {8, 128, 128, 256, 256, 3, 3, 1, 1, 1}},
    {"rn50_l2_3x3_b256", {256, 28, 28, 128, 128, 3, 3, 1, 1, 1}},
    {"rn50_l3_3x3_b256", {256, 14, 14, 256, 256, 3, 3, 1, 1, 1}},
    {"rn50_l4_3x3_b256", {256, 7, 7, 512, 512, 3, 3, 1, 1, 1}},
    {"rn50_l2_3x3", {32, 28, 28, 128, 128, 3, 3, 1, 1, 1}},
    {"rn50_l2_3x3s2", {32, 56, 56, 128, 128, 3, 3, 2, 1, 1}},
    {"rn50_l3_3x3", {32, 14, 14, 256, 256, 3, 3, 1, 1, 1}},
    {"rn50_l4_3x3", {32, 7, 7, 512, 512, 3, 3, 1, 1, 1}},
};

// The layers whose names begin with one of the arguments; all of them without an argument.
inline int run_layers(const std::vector<Kernel>& kernels, int count, char** names) {
    for (const Layer& layer : LAYERS) {
        bool wanted = count < 2;
        for (int i = 1; i < count; ++i) wanted |= std::strncmp(layer.name, names[i], std::strlen(names[i])) == 0;
        for (const Kernel& kernel : kernels) {
            if (wanted) run(kernel, layer.name, layer.conv);
        }
    }
    return 0;
}
