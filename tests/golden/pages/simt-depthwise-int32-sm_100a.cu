// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=uint8:w_type=uint8:out_type=int32:
//     x_zero_point:w_zero_point
//
//   acc = sum over r, s, c of (x - x_zero) * (w - w_zero), in int32
//   y   = acc, as int32
//
// target    sm_100a
// config    simt tile_m=64 tile_n=4 tile_k=16 thread_m=2 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<48x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<49x48x1, 32, 3456 B>>> when: call

@@ // The problem.
IN_H=56 IN_W=56 C=48 C_GROUP=1 OUT_H=56 OUT_W=56 K=48 K_GROUP=1 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=9 X_SIGNED=false W_SIGNED=false

@@ // The config.
constexpr int TILE_M = 64;  // output pixels per block
constexpr int TILE_N = 4;  // output channels per block
constexpr int TILE_K = 16;  // bytes of the reduction staged at a time
THREAD_M=2 THREAD_N=4
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=32 STEPS=1 TILES_N=1 VECTOR_M=2
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 1;  // bytes per load of x; below a word, one element
X_RUNS=8 X_PARTS=4
constexpr int W_BYTES = 1;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=3456 FOLD_THREADS=128

using X = unsigned char;
using W = unsigned char;
using Sum = int;
using Output = int;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    int w_zero;  // the weight zero point

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 5+1
    int w_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+1
    channel.w_zero = args.w_zero;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const Sum x_sum = inputs.x_sum;
@@ 8+4
    acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);
    result = acc;

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 15+1
        const int w_zero = args.w_zero;
@@ 17+1
