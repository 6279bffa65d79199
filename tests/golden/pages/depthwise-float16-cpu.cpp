// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=int8:w_type=uint8:out_type=float16:
//     x_zero_point:bias=float32:activation=relu
//
// target    cpu
// config    depthwise rows=8 columns=8 vector=4 run=2 threads=128
// launch    conv2d_fold<<<48x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<5x1x1, 128, 0 B>>> when: call

@@ // The problem.
IN_H=56 IN_W=56 C=48 C_GROUP=1 OUT_H=56 OUT_W=56 K=48 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=9 X_SIGNED=true W_SIGNED=false

@@ // The config.
ROWS=8 COLUMNS=8
constexpr int VECTOR = 4;  // channels per thread
constexpr int RUN = 2;  // neighbouring outputs that use the same words of pixels
THREADS=128

@@ // Derived values.
WORDS=1 TILES_H=7 TILES_W=7 VECTORS=12 UNITS=588 FOLD_THREADS=128

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    int* taps;  // filters, four taps of a channel per word
    float multiplier;  // x_scale * w_scale

@@ 85b0633d in whole/depthwise-rows-sm_90a.cu: // Each thread iterates down its input rows. A row is loaded once for all outputs whose windows include it; an
@@ 4+1
@@ 8+4
    const X* const x = args.x;

// Entry points: the CPU device calls one per thread.
extern "C" void conv2d_fold_entry(const void* args) {
    conv2d_fold(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_repack_weights_entry(const void* args) {
    conv2d_repack_weights(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_depthwise_entry(const void* args) {
    conv2d_depthwise(*static_cast<const Arguments*>(args));
}
