// What the four kernels share: the convolution, its tensor maps, a plain kernel to compare with, and the timing.
//
//     y[n, p, q, k] = clamp(rint(float(bias[k] + sum over r, s, c of x[n, h, w, c] * weight[k, r, s, c]) * scale[k]))
//
// with h = stride * p - pad + dilation * r, w alike, x = 0 outside of the image, int32 sums and half to even.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Conv {
    int n, h, w, c, k, r, s, stride, dilation, pad;
    __host__ __device__ int p() const { return (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1; }
    __host__ __device__ int q() const { return (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1; }
    __host__ __device__ int pixels() const { return n * p() * q(); }
    double operations() const { return 2.0 * pixels() * k * r * s * c; }
    size_t x_bytes() const { return size_t(n) * h * w * c; }
    size_t w_bytes() const { return size_t(k) * r * s * c; }
    size_t y_bytes() const { return size_t(pixels()) * k; }
};

struct Buffers {
    int8_t *x, *weight, *repacked, *y;
    float* scale;
    int* bias;
};

// ---- The epilogue, the same in all kernels.

// An output element is rounded once by the multiplication and once by the conversion, whatever the compiler's flags.
__device__ __forceinline__ int requantize(int sum, int bias, float scale) {
    return __float2int_rn(__fmul_rn(static_cast<float>(sum + bias), scale));
}

// Two numbers clamped to int8 as the lower bytes of a word, whose upper bytes are the lower two of `above`.
__device__ __forceinline__ uint32_t pack(int low, int high, uint32_t above) {
    uint32_t word;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(high), "r"(low), "r"(above));
    return word;
}

// A lane has two neighbouring columns of every 8 (see wgmma), but wants 16 neighbouring channels, which one instruction
// stores. So the weights' rows are exchanged before the launch: in each 64, column 8 j + 2 i + e is channel
// 16 i + 2 j + e. No lane needs another's sums then, and no shared memory is needed between the sums and the store.
#ifndef CHANNEL_OF_ROW
__host__ __device__ inline int channel_of_column(int column) {
    return column / 64 * 64 + column % 8 / 2 * 16 + column % 64 / 8 * 2 + column % 2;
}
#endif

// Stores the sums of `COLUMNS` channels from `channel` on, for the two pixels of this lane.
template <int COLUMNS>
__device__ __forceinline__ void store_sums(
    const int (&sums)[COLUMNS / 2], const Conv& conv, const Buffers& buffers, int first_pixel, int channel) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, pixels = conv.pixels();
    const int pixel = first_pixel + 16 * warp + lane / 4;
    channel += lane % 4 * 16;
    int8_t* const to = buffers.y + size_t(pixel) * conv.k + channel;
    const bool in_range[2] = {pixel < pixels, pixel + 8 < pixels};
#pragma unroll
    for (int group = 0; group < COLUMNS / 64; ++group) {
        uint32_t words[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int4 bias = __ldg(reinterpret_cast<const int4*>(buffers.bias + channel + group * 64 + i * 4));
            const float4 scale = __ldg(reinterpret_cast<const float4*>(buffers.scale + channel + group * 64 + i * 4));
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int* const four = &sums[group * 32 + i * 8 + half * 2];  // 0, 1 and 4, 5 of them
                const uint32_t above = pack(requantize(four[4], bias.z, scale.z), requantize(four[5], bias.w, scale.w), 0);
                words[half][i] = pack(requantize(four[0], bias.x, scale.x), requantize(four[1], bias.y, scale.y), above);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (in_range[half]) {
                *reinterpret_cast<uint4*>(to + half * 8 * conv.k + group * 64) =
                    make_uint4(words[half][0], words[half][1], words[half][2], words[half][3]);
            }
        }
    }
}

// ---- Host.

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

__global__ void repack(Conv conv, const int8_t* weight, int8_t* repacked) {
    const int reduction = conv.r * conv.s * conv.c;
    for (int i = threadIdx.x; i < reduction; i += blockDim.x) {
        repacked[size_t(blockIdx.x) * reduction + i] = weight[size_t(channel_of_column(blockIdx.x)) * reduction + i];
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
            const int h = p * conv.stride - conv.pad + r * conv.dilation, w = q * conv.stride - conv.pad + s * conv.dilation;
            if (h < 0 || h >= conv.h || w < 0 || w >= conv.w) continue;
            const int4* a = reinterpret_cast<const int4*>(buffers.x + ((size_t(n) * conv.h + h) * conv.w + w) * conv.c);
            const int4* b = reinterpret_cast<const int4*>(buffers.weight + ((size_t(k) * conv.r + r) * conv.s + s) * conv.c);
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

// Each kernel's file defines these: its name, whether it can run a problem, and what a launch needs that is made once.
struct Launch;
const char* kernel_name();
bool can_run(const Conv& conv);
Launch* prepare(const Conv& conv, const Buffers& buffers);
void launch(const Launch& launch, cudaStream_t stream);

// Verifies the first and the last set of buffers, then times as the tuner does: a graph of launches that go round
// buffers of 200 MB in total, so that no input is still in the cache, and the median over its replays.
inline void run(const char* name, const Conv& conv) {
    if (!can_run(conv)) return;
    const size_t once = conv.x_bytes() + conv.w_bytes() + conv.y_bytes();
    const int sets = std::getenv("HOT") ? 1 : std::max(1, int((200'000'000 + once - 1) / once));
    std::vector<Buffers> buffers(sets);
    std::vector<Launch*> launches;
    unsigned long long *wrong, wrongs;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    for (int i = 0; i < sets; ++i) {
        Buffers& each = buffers[i];
        CHECK(cudaMalloc(&each.x, conv.x_bytes()));
        CHECK(cudaMalloc(&each.weight, conv.w_bytes()));
        CHECK(cudaMalloc(&each.repacked, conv.w_bytes()));
        CHECK(cudaMalloc(&each.y, conv.y_bytes()));
        CHECK(cudaMalloc(&each.scale, conv.k * sizeof(float)));
        CHECK(cudaMalloc(&each.bias, conv.k * sizeof(int)));
        draw<<<1024, 256>>>(each.x, conv.x_bytes(), 2 * i);
        draw<<<1024, 256>>>(each.weight, conv.w_bytes(), 2 * i + 1);
        draw_channels<<<(conv.k + 255) / 256, 256>>>(conv, each.scale, each.bias);
        repack<<<conv.k, 256>>>(conv, each.weight, each.repacked);
        CHECK(cudaMemset(each.y, 0x5a, conv.y_bytes()));
        launches.push_back(prepare(conv, each));
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaDeviceSynchronize());
    for (const int i : {0, sets - 1}) {
        launch(*launches[i], stream);
        CHECK(cudaGetLastError());
        compare<<<dim3((conv.pixels() + 15) / 16, (conv.k + 15) / 16), 256, 0, stream>>>(conv, buffers[i], wrong);
        CHECK(cudaStreamSynchronize(stream));
    }
    const int count = std::max(sets, 20);
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < count; ++i) launch(*launches[i % sets], stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&replay, graph, 0));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    Stamp* stamps;
    CHECK(cudaMalloc(&stamps, 2 * sizeof(Stamp)));
    CHECK(cudaMemset(stamps, 0, 2 * sizeof(Stamp)));
    std::vector<float> times;
    for (int i = 0; i < 11; ++i) {
        if (i == 2) stamp<<<132, 1, 0, stream>>>(stamps);
        CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaGraphLaunch(replay, stream));
        CHECK(cudaEventRecord(end, stream));
        if (i == 10) stamp<<<132, 1, 0, stream>>>(stamps + 1);
        CHECK(cudaEventSynchronize(end));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (i >= 2) times.push_back(ms * 1000 / count);
    }
    std::sort(times.begin(), times.end());
    const double us = times[times.size() / 2];
    CHECK(cudaMemcpy(&wrongs, wrong, sizeof wrongs, cudaMemcpyDeviceToHost));
    std::printf("{\"kernel\": \"%s\", \"layer\": \"%s\", \"time_us\": %.2f, \"tops\": %.0f, \"wrong\": %llu, "
                "\"least_us\": %.2f, \"sm_mhz\": %.0f}\n",
                kernel_name(), name, us, conv.operations() / us * 1e-6, wrongs, times[0], megahertz(stamps));
    std::fflush(stdout);
    for (const Buffers& each : buffers) {
        for (void* pointer : {(void*)each.x, (void*)each.weight, (void*)each.repacked, (void*)each.y, (void*)each.scale,
                              (void*)each.bias}) {
            CHECK(cudaFree(pointer));
        }
    }
    CHECK(cudaFree(wrong));
    CHECK(cudaFree(stamps));
}

struct Layer {
    const char* name;
    Conv conv;
};

// 3x3 layers of ResNet-50, VGG-16 and a U-Net, as bench/workloads/peers_h200.csv names them. Those with `tiny` in
// their name are there to find mistakes: borders, strides, dilations, tiles that are not full.
inline const Layer LAYERS[] = {
    {"tiny", {1, 5, 7, 128, 256, 3, 3, 1, 1, 1}},
    {"tiny_strided", {3, 13, 11, 256, 256, 3, 3, 2, 1, 1}},
    {"tiny_dilated", {2, 19, 17, 128, 512, 3, 5, 1, 2, 3}},
    {"tiny_64", {2, 9, 9, 64, 64, 3, 3, 1, 1, 1}},
    {"vgg_conv4", {32, 28, 28, 512, 512, 3, 3, 1, 1, 1}},
    {"vgg_conv3", {32, 56, 56, 256, 256, 3, 3, 1, 1, 1}},
    {"unet_big", {8, 128, 128, 256, 256, 3, 3, 1, 1, 1}},
    {"rn50_l1_3x3_b256", {256, 56, 56, 64, 64, 3, 3, 1, 1, 1}},
    {"rn50_l2_3x3_b256", {256, 28, 28, 128, 128, 3, 3, 1, 1, 1}},
    {"rn50_l3_3x3_b256", {256, 14, 14, 256, 256, 3, 3, 1, 1, 1}},
    {"rn50_l4_3x3_b256", {256, 7, 7, 512, 512, 3, 3, 1, 1, 1}},
    {"rn50_l1_3x3", {32, 56, 56, 64, 64, 3, 3, 1, 1, 1}},
    {"rn50_l2_3x3", {32, 28, 28, 128, 128, 3, 3, 1, 1, 1}},
    {"rn50_l2_3x3s2", {32, 56, 56, 128, 128, 3, 3, 2, 1, 1}},
    {"rn50_l3_3x3", {32, 14, 14, 256, 256, 3, 3, 1, 1, 1}},
    {"rn50_l4_3x3", {32, 7, 7, 512, 512, 3, 3, 1, 1, 1}},
};

// The layers whose names begin with one of the arguments; all of them without an argument.
inline int run_layers(int count, char** names) {
    for (const Layer& layer : LAYERS) {
        bool wanted = count < 2;
        for (int i = 1; i < count; ++i) wanted |= std::strncmp(layer.name, names[i], std::strlen(names[i])) == 0;
        if (wanted) run(layer.name, layer.conv);
    }
    return 0;
}
