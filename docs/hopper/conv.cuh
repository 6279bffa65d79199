// What the five kernels share on the device: the convolution and the way from sums to stored bytes.
//
//     y[n, p, q, k] = clamp(rint(float(bias[k] + sum over r, s, c of x[n, h, w, c] * weight[k, r, s, c]) * scale[k]))
//
// with h = stride * p - pad + dilation * r, w alike, x = 0 outside of the image, int32 sums and half to even.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>

struct Conv {
    int n, h, w, c, k, r, s, stride, dilation, pad;
    __host__ __device__ int p() const { return (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1; }
    __host__ __device__ int q() const { return (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1; }
    __host__ __device__ int pixels() const { return n * p() * q(); }
    __host__ __device__ double operations() const { return 2.0 * pixels() * k * r * s * c; }
    __host__ __device__ size_t x_bytes() const { return size_t(n) * h * w * c; }
    __host__ __device__ size_t w_bytes() const { return size_t(k) * r * s * c; }
    __host__ __device__ size_t y_bytes() const { return size_t(pixels()) * k; }
};

struct Buffers {
    int8_t *x, *weight, *repacked, *y;
    float* scale;
    int* bias;
};

// ---- The epilogue.

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

// Where the channels are the columns of the product (kernels 1 to 3), a lane has two neighbouring columns of every
// 8 (see wgmma), but wants 16 neighbouring channels, which one instruction stores. So the rows of the weights are
// exchanged before the launch: in each 64, column 8 j + 2 i + e is channel 16 i + 2 j + e. No lane needs another's
// sums then, and no shared memory is needed between the sums and the store.
__host__ __device__ inline int channel_of_column(int column) {
    return column / 64 * 64 + column % 8 / 2 * 16 + column % 64 / 8 * 2 + column % 2;
}

// Stores the sums of `CHANNELS` channels from `channel` on, for the two pixels of this lane.
template <int CHANNELS>
__device__ __forceinline__ void store_columns(
    const int (&sums)[CHANNELS / 2], const Conv& conv, const Buffers& buffers, int first_pixel, int channel) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, pixels = conv.pixels();
    const int pixel = first_pixel + 16 * warp + lane / 4;
    channel += lane % 4 * 16;
    int8_t* const to = buffers.y + size_t(pixel) * conv.k + channel;
    const bool in_range[2] = {pixel < pixels, pixel + 8 < pixels};
#pragma unroll
    for (int group = 0; group < CHANNELS / 64; ++group) {
        uint32_t words[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int4 bias = __ldg(reinterpret_cast<const int4*>(buffers.bias + channel + group * 64 + i * 4));
            const float4 scale = __ldg(reinterpret_cast<const float4*>(buffers.scale + channel + group * 64 + i * 4));
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int* const four = &sums[group * 32 + i * 8 + half * 2];  // 0, 1 and 4, 5 of them
                const uint32_t above =
                    pack(requantize(four[4], bias.z, scale.z), requantize(four[5], bias.w, scale.w), 0);
                words[half][i] =
                    pack(requantize(four[0], bias.x, scale.x), requantize(four[1], bias.y, scale.y), above);
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

// Where the channels are the rows of the product (kernel 4), a lane has four rows of each 128. They are neighbours
// if row 64 t + 16 w + 8 h + g is channel 32 w + 4 g + 2 t + h.
__host__ __device__ inline int channel_of_row(int row) {
    return row / 128 * 128 + row % 64 / 16 * 32 + row % 8 * 4 + row % 128 / 64 * 2 + row % 16 / 8;
}

// Stores the sums of 128 channels from `channel` on and of `PIXELS` pixels from `pixel` on. A lane has four
// channels of two pixels in every 8, so bias and scale stay in its registers; eight lanes store 32 bytes of a
// pixel.
template <int PIXELS>
__device__ __forceinline__ void store_rows(
    const int (&sums)[2][PIXELS / 2], const Conv& conv, const Buffers& buffers, int pixel, int channel) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    channel += warp * 32 + lane / 4 * 4;
    pixel += lane % 4 * 2;
    const int4 bias = __ldg(reinterpret_cast<const int4*>(buffers.bias + channel));
    const float4 scale = __ldg(reinterpret_cast<const float4*>(buffers.scale + channel));
    int8_t* to = buffers.y + size_t(pixel) * conv.k + channel;
    const int left = conv.pixels() - pixel;
#pragma unroll
    for (int j = 0; j < PIXELS / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int i = 4 * j + e;
            const uint32_t above =
                pack(requantize(sums[1][i], bias.z, scale.z), requantize(sums[1][i + 2], bias.w, scale.w), 0);
            const uint32_t word =
                pack(requantize(sums[0][i], bias.x, scale.x), requantize(sums[0][i + 2], bias.y, scale.y), above);
            if (8 * j + e < left) *reinterpret_cast<uint32_t*>(to + e * conv.k) = word;
        }
        to += 8 * conv.k;
    }
}
