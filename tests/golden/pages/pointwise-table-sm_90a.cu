// conv2d:n=32:h=56:w=56:c=24:k=144:r=1:s=1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:
//     y_zero_point:table:bias=int32
//
//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   b   = clamp(round_half_to_even((acc + bias[k]) * multiplier[k]) + y_zero) as uint8
//   y   = table[the byte of b - y_zero]
//
// target    sm_90a
// config    pointwise batch=2 batches=1 atoms=2 pipeline_stages=3 warps=4 blocks_per_sm=2 weights_in_smem=0
// launch    conv2d_fold<<<144x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<9x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_pointwise<<<264x1x1, 128, 28224 B>>> when: call

@@ // The problem.
IN_H=56 IN_W=56 C=24 C_GROUP=24 OUT_H=56 OUT_W=56 K=144 K_GROUP=144 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=100352 REDUCTION=24 X_SIGNED=false W_SIGNED=true

@@ // Derived values.
WARP_SIZE=32 THREADS=128 UNIT=32
constexpr int UNITS = 3136;
constexpr int GRID_BLOCKS = 264;  // persistent blocks, whose warps take units one after the other
constexpr int STEPS = 1;  // steps of 32 input channels
constexpr int SLAB_K = 16;  // output channels whose sums a warp has at a time
ALL_SLABS=9 HAS_K_REMAINDER=false
constexpr int X_BYTES = 8;  // neighbouring channels that a lane reads at once
VECTOR_K=4 STAGE_BYTES=816 SMEM_BYTES=28224 FOLD_THREADS=128

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 8+1
@@ 10+1
    const Output* table;  // 256 outputs, one for each byte, from that of y_zero on
    int* fragments;  // filters, in the order in which a warp's lanes hold them

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+0
    float y_zero;
    const Output* table;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 10+2
    result = tile::load(channel.table + static_cast<unsigned char>(
        tile::round_small(tile::clamp(value, 0.0f - channel.y_zero, 255.0f - channel.y_zero))));

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 16+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].y_zero = args.y_zero;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].table = args.table;

@@ d6458a07 in pages/pointwise-registers-sm_90a.cu: // Writes neighbouring outputs of a pixel to shared memory: the existing ones from channel `k` on.
@@ 7+2
    const Output two[2] = {narrow(finished[0]), narrow(finished[1])};
