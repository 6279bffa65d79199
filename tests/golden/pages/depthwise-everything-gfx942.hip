// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    gfx942
// config    depthwise rows=8 columns=4 vector=4 run=2 threads=128
// launch    conv2d_fold<<<48x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<10x1x1, 128, 0 B>>> when: call

@@ // The problem.
IN_H=56 IN_W=56 C=48 C_GROUP=1 OUT_H=56 OUT_W=56 K=48 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=9 X_SIGNED=false W_SIGNED=true

@@ // Derived values.
WORDS=1 TILES_H=7 TILES_W=14 VECTORS=12 UNITS=1176 FOLD_THREADS=128

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 10+0
    int* taps;  // filters, four taps of a channel per word

@@ 8ab1b390 in whole/depthwise-rows-sm_90a.cu: // The sums of an output pixel.
@@ 4+0
    Sum x_sum[VECTOR];  // sum of the inputs in each window

// Returns ones at the taps of a filter row that are in word `q`.
constexpr __device__ unsigned ones_of(int in_run, int q) {
    unsigned word = 0;
    for (int i = 0; i < 4; ++i) {
        const int s = 4 * q + i - in_run * STRIDE_W;
        if (s >= 0 && s < S) word |= 1u << (8 * i);
    }
    return word;
}

@@ 53cf49e2 in whole/depthwise-rows-sm_90a.cu: // Adds the products of one filter row.
@@ 15+0
                const unsigned ones = ones_of(in_run, q);
                sums.x_sum[n] = dot<X_SIGNED, false>(taps.channel[i], ones, sums.x_sum[n]);

@@ 4e6d610f in whole/depthwise-rows-sm_90a.cu: __device__ __forceinline__ void finish_pixel(
@@ 12+0
        inputs.x_sum = sums.x_sum[i];
