// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), saturated, as float8_e4m3fn
//
// target    sm_89
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=16896

// Converts float to an 8-bit float: half to even, beyond the largest number to that number, as OCP's
// saturating conversion does; a NaN is the type's NaN. Below the smallest normal number, adding a power of
// two drops the bits below the last one.
template <int MANTISSA, unsigned LARGEST, unsigned BIAS>
__device__ __forceinline__ unsigned char to_float8(float a) {
    constexpr int DROPPED = 23 - MANTISSA;
    constexpr unsigned SMALLEST_NORMAL = (128u - BIAS) << 23, ONE_STEP = (151u - BIAS - MANTISSA) << 23;
    const unsigned sign = as_bits(a) >> 24 & 0x80u, magnitude = as_bits(a) & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fu;
    if (magnitude < SMALLEST_NORMAL) {
        const unsigned steps = as_bits(as_float(magnitude) + as_float(ONE_STEP)) - ONE_STEP;
        return static_cast<unsigned char>(sign | steps);
    }
    const unsigned even = magnitude >> DROPPED & 1u;
    const unsigned rounded = (magnitude + (1u << (DROPPED - 1)) - 1u + even) >> DROPPED;
    const unsigned rebased = rounded - ((127u - BIAS) << MANTISSA);
    return static_cast<unsigned char>(sign | (rebased < LARGEST ? rebased : LARGEST));
}

// Rounds floats half to even to an 8-bit float, saturating, four to a word.
template <int MANTISSA, unsigned LARGEST, unsigned BIAS>
struct PackedFloats8 {
    static constexpr int COUNT = 4;
    static __device__ __forceinline__ unsigned char one(float a) {
        return static_cast<unsigned char>(pair(a, a));
    }
    static __device__ __forceinline__ unsigned word(const float* four) {
        return pair(four[0], four[1]) | pair(four[2], four[3]) << 16;
    }
    static __device__ __forceinline__ unsigned pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        unsigned short two;
        if constexpr (MANTISSA == 3) {
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
        } else {
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
        }
        return two;
#else
        const unsigned upper = to_float8<MANTISSA, LARGEST, BIAS>(high);
        return to_float8<MANTISSA, LARGEST, BIAS>(low) | upper << 8;
#endif
    }
};
using PackedE4m3s = PackedFloats8<3, 0x7eu, 7>;
using PackedE5m2s = PackedFloats8<2, 0x7bu, 15>;

using X = unsigned char;
using W = unsigned char;
using Sum = float;
using Output = unsigned char;

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)

// The type that `narrow` converts to an output element.
using Finished = float;
using Narrow = tile::PackedE4m3s;

@@ 8ccdf8e7 in pages/mma-bfloat16-0-sm_89.cu: // Computes D += A * B, by one warp.
@@ 4+1
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
