// conv2d:n=2:h=1:w=1:c=960:k=240:r=1:s=1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:
//     w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    gfx1100
// config    gemv pixels=2 channels=1 lanes=16 threads=128
// launch    conv2d_fold<<<240x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_gemv<<<30x1x1, 128, 1224 B>>> when: call

@@ // The problem.
IN_H=1 IN_W=1 C=960 C_GROUP=960 OUT_H=1 OUT_W=1 K=240 K_GROUP=240 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=2 REDUCTION=960 X_SIGNED=false W_SIGNED=true

@@ // The config.
constexpr int ROWS = 2;  // output pixels per thread
constexpr int CHANNELS = 1;  // output channels per thread
LANES=16 THREADS=128

@@ // Derived values.
constexpr int WORDS = 4;  // words per vector of a window
constexpr int VECTORS = 60;  // vectors per window
constexpr int OUTPUTS = 16;  // outputs per block
K_BLOCKS=30 SMEM_BYTES=1224 FOLD_THREADS=128

@@ 2bf76ee8 in pages/gemv-squeeze-sm_90a.cu: struct Shared {
@@ 4+0
    Sum x_sum[ROWS][LANES + 1];

@@ 3c7854d0 in pages/gemv-squeeze-sm_90a.cu: // Each block computes TEAM_K output channels of ROWS pixels. All loads are issued at once; the lanes' partial
@@ 4+1

@@ 35842d89 in pages/gemv-squeeze-sm_90a.cu:     // The output that this thread finishes, and its channel parameters.
@@ 7+4
    const X* const x = args.x;

@@ 1a6b52ed in pages/gemv-squeeze-sm_90a.cu:     const X* window[ROWS];
@@ 13+0
    Sum x_sum[ROWS] = {};
@@ 27+0
                x_sum[p] = dot<X_SIGNED, false>(x.word[j], 0x01010101u, x_sum[p]);
@@ 36+0
        if (team == 0) shared.x_sum[p][lane] = x_sum[p];
@@ 41+0
#pragma unroll
    for (int i = 0; i < LANES; ++i) inputs.x_sum += shared.x_sum[out_row][i];
