// conv2d:n=8:h=28:w=28:c=128:k=256:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:inner_zero_point:bias=int32:activation=relu:
//     residual=uint8:residual_add=requantized_last
//
//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   v   = (acc + bias[k]) * multiplier[k]
//   r   = clamp(round_half_to_even(v) + inner_zero) as uint8
//   y   = clamp(round_half_to_even(max(fma(r, inner_ratio, fma(residual, residual_ratio, sum_offset)), y_zero))) as uint8
//
// target    sm_90a
// config    wgmma consumers=2 split_pixels=0 pixels=192 weight_slots=3 lag=2
// launch    conv2d_fold<<<256x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<18x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<576x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<33x1x1, 384, 222208 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=28 OUT_W=28 K=256 K_GROUP=256 R=3 S=3 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=1152 X_SIGNED=false
W_SIGNED=true

@@ // Derived values.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
PIXEL_RINGS=1 WEIGHT_RINGS=2 PIXEL_SLOTS=3 RESIDUAL_SLOTS=1 CHANNEL_TILES=1 TILES=33 BLOCKS=33
constexpr int WEIGHT_ROWS = 256;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3
SMEM_BYTES=222208 FOLD_THREADS=128

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 8+2
    const int* int32_bias;  // per channel: read by fold
    const float* multiplier;  // per channel: x_scale * w_scale / inner_scale
@@ 15+3
    float inner_zero;  // the zero point of its own output
    float inner_ratio;  // inner_scale / y_scale
    float residual_ratio;  // residual_scale / y_scale
    float sum_offset;  // y_zero_point - (inner_ratio * inner_zero_point + residual_ratio * residual_zero_point)

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+0
    float inner_zero;
    float inner_ratio;
    float residual_ratio;
    float sum_offset;
    float y_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 6+0
    channel.inner_zero = args.inner_zero;
    channel.inner_ratio = args.inner_ratio;
    channel.residual_ratio = args.residual_ratio;
    channel.sum_offset = args.sum_offset;
    channel.y_zero = args.y_zero;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const float residual = inputs.residual;
@@ 10+2
    value = tile::clamp(tile::rounded(value, channel.inner_zero), 0.0f, 255.0f);
    value = tile::fma(value, channel.inner_ratio, tile::fma(static_cast<float>(residual), channel.residual_ratio, channel.sum_offset));
    result = tile::maximum(value, channel.y_zero);

@@ 700805ba in shared.cu: // Computes what conv2d_fold computes for inner pixels, for every class of border pixels. Runs once per set of
@@ 10+8
    for (int tap = 0; tap < R * S; ++tap) {
        const int row = first_row + tap / S * DILATION_H, column = first_column + tap % S * DILATION_W;
        if (row < 0 || row >= IN_H || column < 0 || column >= IN_W) continue;
        for (int c = 0; c < C; ++c) sum += tile::load(args.w + (k * REDUCTION + tap * C + c));
