// conv2d:n=8:h=28:w=28:c=128:k=256:r=2:s=2:pad=1,1,1,1:pixel_shuffle=2,2:crop=1,1,1,1:x_type=uint8:
//     w_type=int8:out_type=uint8:per_channel:x_zero_point:y_zero_point:residual_zero_point:bias=float32:
//     activation=relu:residual=uint8:zero_point_add=before_round:order=multiply_reciprocal:
//     bias_scaling=real:scales=twice_inverted:residual_add=fma
//
//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   v   = (acc * scale[k] + bias[k])
//   r   = fma(residual - residual_zero, residual_scale, v)
//   y   = clamp(round_half_to_even(relu(r) * inverse + y_zero)) as uint8
//   Channel (2 * a + b) * 64 + k at (row, column) is the output k at (2 * row + a - 1, 2 * column + b - 1).
//
// target    sm_75
// config    simt tile_m=128 tile_n=64 tile_k=64 thread_m=8 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<256x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<53x4x1, 256, 25600 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=29 OUT_W=29 K=256 K_GROUP=256 S=2 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6728 REDUCTION=512 X_SIGNED=false W_SIGNED=true
SHUFFLE_H=2 SHUFFLE_W=2 CROP_TOP=1 CROP_LEFT=1 Y_H=56 Y_W=56 Y_C=64 Y_GROUP=64

@@ // Derived values.
THREADS=256 STEPS=8 TILES_N=4 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 16;  // bytes per load of x; below a word, one element
X_RUNS=2
constexpr int W_BYTES = 16;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=25600 FOLD_THREADS=128

@@ 46e96ef1 in pages/simt-body-residual-sm_90a.cu: // Loads the residuals of a thread's outputs of VECTOR_N channels, all of them before the first output is
@@ 10+6
@@ 17+5
        for (int v = 0; v < VECTOR_N; ++v) {
            const int index = shuffled_pixel(pixel).index_of(k + v);
            if (k + v < k_end && index >= 0) residuals[i].element[v] = args.residual[index];

@@ dbcff4d5 in whole/simt-body-sm_90a.cu: __device__ __forceinline__ void store(
@@ 12+0
        ResidualVector residuals[THREAD_M];
        load_residuals(args, pixel_first, k, k_end, residuals);
@@ 20+0
                inputs.residual = residuals[i].element[v];
@@ 22+8
            static_assert(CHANNELS_LAST, "the channels of a pixel must lie side by side");
            constexpr int OF_PIXEL = Y_GROUP % VECTOR_N == 0 ? VECTOR_N : 1;
            write_shuffled<OF_PIXEL, false>(args.y, shuffled_pixel(pixel), k, k_end, finished);
