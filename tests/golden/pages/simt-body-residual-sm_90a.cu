// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    simt tile_m=128 tile_n=64 tile_k=64 thread_m=8 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<49x2x1, 256, 25600 B>>> when: call

@@ // Derived values.
THREADS=256 STEPS=18 TILES_N=2 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 16;  // bytes per load of x; below a word, one element
X_RUNS=2
constexpr int W_BYTES = 16;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=25600 FOLD_THREADS=128

struct alignas(sizeof(Residual) * VECTOR_N) ResidualVector { Residual element[VECTOR_N]; };

// Loads the residuals of a thread's outputs of VECTOR_N channels, all of them before the first output is
// written. Reads nothing where there is no output.
__device__ __forceinline__ void load_residuals(
    const Arguments& args, int pixel_first, int k, int k_end, ResidualVector (&residuals)[THREAD_M]) {
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        residuals[i] = {};
        const int pixel = pixel_first + i / VECTOR_M * (TILE_M / (THREAD_M / VECTOR_M)) + i % VECTOR_M;
        if (pixel >= PIXELS) continue;
        if constexpr (CHANNELS_LAST && K_GROUP % VECTOR_N == 0) {
            if (k < k_end) {
                residuals[i] =
                    *reinterpret_cast<const ResidualVector*>(args.residual + output_index(pixel, k));
            }
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR_N; ++v) {
                if (k + v < k_end) {
                    residuals[i].element[v] = args.residual[output_index(pixel, k + v)];
                }
            }
        }
    }
}

@@ dbcff4d5 in whole/simt-body-sm_90a.cu: __device__ __forceinline__ void store(
@@ 12+0
        ResidualVector residuals[THREAD_M];
        load_residuals(args, pixel_first, k, k_end, residuals);
@@ 20+0
                inputs.residual = residuals[i].element[v];
