// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float32:w_type=float32:out_type=float32:
//     per_channel:bias=float32:activation=relu
//
// target    sm_75
// config    simt tile_m=64 tile_n=64 tile_k=32 thread_m=4 thread_n=8 pipeline_stages=2
// launch    conv2d_simt<<<98x2x1, 128, 8704 B>>> when: call

@@ // The config.
constexpr int TILE_M = 64;  // output pixels per block
constexpr int TILE_N = 64;  // output channels per block
constexpr int TILE_K = 32;  // bytes of the reduction staged at a time
THREAD_M=4 THREAD_N=8
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=128 STEPS=144 TILES_N=2 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 16;  // bytes per load of x; below a word, one element
X_RUNS=1
constexpr int W_BYTES = 16;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=8704

// The elements of a 32-bit word as floats: one float.
struct Floats {
    static constexpr int COUNT = 1;
    static __device__ __forceinline__ float of(unsigned word, int) { return as_float(word); }
};

using XWord = tile::Floats;
using WWord = tile::Floats;
// Adds the products of two words of floats to a float, in order. Each product and sum is rounded once.
template <bool, bool>
__device__ __forceinline__ float dot(unsigned a, unsigned b, float acc) {
#pragma unroll
    for (int i = 0; i < XWord::COUNT; ++i) acc = tile::fma(XWord::of(a, i), WWord::of(b, i), acc);
    return acc;
}
