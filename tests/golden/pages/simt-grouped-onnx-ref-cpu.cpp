// conv2d:n=1:h=14:w=14:c=64:k=96:r=3:s=3:pad=1,1,1,1:groups=8:x_type=int8:w_type=int8:out_type=int8:
//     y_zero_point:bias=int32:zero_point_add=before_round:multiplier=fp64
//
//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even((acc + bias[k]) * multiplier + y_zero)) as int8
//
// target    cpu
// config    simt tile_m=128 tile_n=16 tile_k=32 thread_m=8 thread_n=8 pipeline_stages=2
// launch    conv2d_simt<<<2x8x1, 32, 9728 B>>> when: call

@@ // The config.
constexpr int TILE_M = 128;  // output pixels per block
constexpr int TILE_N = 16;  // output channels per block
constexpr int TILE_K = 32;  // bytes of the reduction staged at a time
THREAD_M=8 THREAD_N=8
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=32 STEPS=3 TILES_N=1 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 8;  // bytes per load of x; below a word, one element
X_RUNS=16
constexpr int W_BYTES = 8;  // bytes per load of w; below a word, one element
W_RUNS=2 SMEM_BYTES=9728

__device__ __forceinline__ double add(double a, float b) { return a + b; }
__device__ __forceinline__ double multiply(double a, float b) { return a * b; }
__device__ __forceinline__ double maximum(double a, float b) { return a > b ? a : b; }
__device__ __forceinline__ double minimum(double a, float b) { return a < b ? a : b; }

__device__ __forceinline__ double add(double a, double b) { return a + b; }
__device__ __forceinline__ double multiply(double a, double b) { return a * b; }
__device__ __forceinline__ double divide(double a, double b) { return a / b; }
__device__ __forceinline__ double maximum(double a, double b) { return a > b ? a : b; }
__device__ __forceinline__ double minimum(double a, double b) { return a < b ? a : b; }

__device__ __forceinline__ int round_to_int(double a) { return static_cast<int>(__builtin_rint(a)); }

__device__ __forceinline__ double clamp(double a, float low, float high) {
    return minimum(maximum(a, low), high);
}

__device__ __forceinline__ double clamp(double a, double low, double high) {
    return minimum(maximum(a, low), high);
}

__device__ __forceinline__ int round_small(double a) { return round_to_int(a); }

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 7+1
    float multiplier;  // x_scale * w_scale / y_scale
    float y_zero;  // the output zero point

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+0
    float y_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+1
    channel.multiplier = args.multiplier;
    channel.y_zero = args.y_zero;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+1
    double value = static_cast<double>(acc);
@@ 10+2
    value = tile::add(value, channel.y_zero);
    result = static_cast<Output>(tile::round_small(tile::clamp(value, -128.0f, 127.0f)));

@@ ef737457 in pages/simt-body-everything-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 2+3
