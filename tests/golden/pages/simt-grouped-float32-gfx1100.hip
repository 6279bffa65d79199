// conv2d:n=1:h=14:w=14:c=64:k=96:r=3:s=3:pad=1,1,1,1:groups=8:x_type=int8:w_type=int8:out_type=float32:
//     per_channel:w_zero_point
//
//   acc = sum over r, s, c of x * (w - w_zero[k]), in int32
//   y   = acc * multiplier[k], as float32
//
// target    gfx1100
// config    simt tile_m=16 tile_n=4 tile_k=32 thread_m=1 thread_n=1 pipeline_stages=2
// launch    conv2d_simt<<<13x24x1, 64, 2048 B>>> when: call

@@ // The problem.
IN_H=14 IN_W=14 C=64 C_GROUP=8 OUT_H=14 OUT_W=14 K=96 K_GROUP=12 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=196 REDUCTION=72 X_SIGNED=true W_SIGNED=true

@@ // Derived values.
THREADS=64 STEPS=3 TILES_N=3 VECTOR_M=1
constexpr int VECTOR_N = 1;  // neighbouring channels per access
constexpr int X_BYTES = 8;  // bytes per load of x; below a word, one element
X_RUNS=1 X_PARTS=4
constexpr int W_BYTES = 8;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=2048

using X = signed char;
using W = signed char;
using Sum = int;
using Output = float;

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const int* w_zero;  // per channel: the weight zero point
    const float* multiplier;  // per channel: x_scale * w_scale

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 4+1
    int w_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 4+1
    channel.w_zero = tile::load(args.w_zero + k);

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const Sum x_sum = inputs.x_sum;
@@ 7+1
    acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);
@@ 10+1
