// conv2d:n=32:h=28:w=28:c=27:k=21:r=1:s=1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:
//     w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    cpu.sm_80
// config    pointwise batch=2 batches=1 atoms=2 pipeline_stages=3 warps=4 blocks_per_sm=2 weights_in_smem=0
// launch    conv2d_fold<<<21x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_pointwise<<<8x1x1, 128, 13632 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=27 C_GROUP=27 OUT_H=28 OUT_W=28 K=21 K_GROUP=21 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=25088 REDUCTION=27 X_SIGNED=false W_SIGNED=true

@@ // Derived values.
WARP_SIZE=32 THREADS=128 UNIT=32
constexpr int UNITS = 784;
constexpr int GRID_BLOCKS = 8;  // persistent blocks, whose warps take units one after the other
constexpr int STEPS = 1;  // steps of 32 input channels
constexpr int SLAB_K = 16;  // output channels whose sums a warp has at a time
ALL_SLABS=2 HAS_K_REMAINDER=true
constexpr int X_BYTES = 4;  // neighbouring channels that a lane reads at once
VECTOR_K=1 STAGE_BYTES=912 COPIES_IN_FLIGHT=7 SMEM_BYTES=13632 FOLD_THREADS=128

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 12+0
        const auto w_zero = tile::load_vector<WIDTH>(args.w_zero + first);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].w_zero = w_zero.element[j];
@@ 17+0
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].y_zero = args.y_zero;

@@ f8789add in pages/pointwise-registers-sm_90a.cu: __device__ __forceinline__ Pixels load_pixels(const unsigned char* sixteen) {
@@ 6+1
        // Pixels are not word-aligned: each of their words is assembled from two.
        const auto* const words = reinterpret_cast<const unsigned*>(sixteen) + begin / 4 + tile::lane() % 4;
        const auto word_at = [=](int at) {
            const unsigned low = tile::load_shared<1>(words + at).word[0];
            const unsigned high = tile::load_shared<1>(words + at + 1).word[0];
            const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
            return static_cast<unsigned>(both >> (begin % 4 * 8));
        };
@@ 9+17
            pixels.word[step][i] = word_at(8 * step);
            pixels.word[step][2 + i] = word_at(8 * step + 4);

@@ 765e3583 in pages/pointwise-registers-sm_90a.cu: // Finishes one slab of 16 pixels, from pixel `first` of the unit on, into shared memory.
@@ 16+0
                inputs.x_sum = sums.x_sum[n / 2][d];

@@ 2984a142 in pages/pointwise-registers-sm_90a.cu: // Persistent blocks, as many as are resident at a time, whose warps take units of pixels in turn. No warp
@@ 8+2

@@ 249b6c2b in pages/depthwise-float16-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 8+2
extern "C" void conv2d_pointwise_entry(const void* args) {
    conv2d_pointwise(*static_cast<const Arguments*>(args));
