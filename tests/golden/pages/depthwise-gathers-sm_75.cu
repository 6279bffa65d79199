// conv2d:n=1:h=56:w=56:c=24:k=48:r=5:s=5:pad=1,1,1,1:groups=24:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_75
// config    depthwise rows=8 columns=4 vector=4 run=1 threads=128
// launch    conv2d_fold<<<48x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<10x1x1, 128, 0 B>>> when: call

@@ // The problem.
IN_H=56 IN_W=56 C=24 C_GROUP=1 OUT_H=54 OUT_W=54 K=48 K_GROUP=2 R=5 S=5 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=2916 REDUCTION=25 X_SIGNED=false W_SIGNED=true

@@ // The config.
ROWS=8 COLUMNS=4
constexpr int VECTOR = 4;  // channels per thread
constexpr int RUN = 1;  // neighbouring outputs that use the same words of pixels
THREADS=128

@@ // Derived values.
WORDS=2 TILES_H=7 TILES_W=14 VECTORS=12 UNITS=1176 FOLD_THREADS=128

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 6+0
    const Residual* residual;  // added before the activation, NHWK
@@ 7+4
    const float* scale;  // per channel: x_scale * w_scale
    const float* bias;  // per channel: the bias, in real units
    int* taps;  // filters, four taps of a channel per word
    float residual_scale;  // the scale of the residual
    int residual_zero;  // the zero point of the residual
    float inverse;  // 1 / y_scale

// Channels loaded at once and channels stored at once: either all of them exist or none does.
constexpr int LOAD_K = 1, STORE_K = 4;
using Loaded = unsigned char;
static_assert((K_GROUP == 1 || LOAD_K == 1) && C % LOAD_K == 0, "LOAD_K must divide C; 1 if K > C");
static_assert(K % STORE_K == 0, "STORE_K must divide K");

__device__ __forceinline__ Pixel load_pixel(const X* pixel, [[maybe_unused]] int k) {
    Pixel result;
    // The channels are not adjacent or do not fill a word: each is loaded from the input channel that it
    // filters.
#pragma unroll
    for (int i = 0; i < VECTOR; i += LOAD_K) {
        const int c = (k + i < K ? k + i : K - LOAD_K) / K_GROUP;
        const unsigned loaded = tile::load(reinterpret_cast<const Loaded*>(pixel + c));
        result.quad[i / 4] = (i % 4 == 0 ? 0u : result.quad[i / 4]) | loaded << (8 * (i % 4));
    }
    return result;
}

constexpr int RESIDUAL_BYTES = sizeof(Residual) * VECTOR < 16 ? sizeof(Residual) * VECTOR : 16;
struct alignas(RESIDUAL_BYTES) ResidualVector { Residual element[VECTOR]; };

__device__ __forceinline__ ResidualVector residual_at(
    const Arguments& args, int index, [[maybe_unused]] int k) {
    ResidualVector residuals = {};
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        if (k + i < K) residuals.element[i] = args.residual[index + i];
    }
    return residuals;
}

@@ 4e6d610f in whole/depthwise-rows-sm_90a.cu: __device__ __forceinline__ void finish_pixel(
@@ 8+0
    const ResidualVector residuals = residual_at(args, index, patch.k);
@@ 12+0
        inputs.residual = residuals.element[i];
@@ 14+1
#pragma unroll
    for (int i = 0; i < VECTOR; i += STORE_K) {
        if (patch.k + i >= K) continue;
        write(args.y + index + i, *reinterpret_cast<const Finished(*)[STORE_K]>(&finished[i]));
    }
