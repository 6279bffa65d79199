// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=uint8:out_type=float16:
//     x_zero_point:bias=float32:activation=relu
//
// target    sm_86
// config    mma instruction=0 tile_m=128 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=4
//           prefetch_fragments=0 split=2 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 256, 49680 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=28 OUT_W=28 K=128 K_GROUP=128 R=3 S=3 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=1152 X_SIGNED=true
W_SIGNED=false

@@ // The config.
TILE_M=128 TILE_N=64 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=4
constexpr int SPLIT = 2;  // blocks that share a tile

@@ // Derived values.
WARP_SIZE=32 THREADS=256 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=49 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=49680 FOLD_THREADS=128 PADDING_WORDS=4096

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    int* padding;  // x_zero in every element
    Sum* sums;  // sums of the tiles that several blocks share
    int* arrived;  // steps added so far to each of these tiles
    float multiplier;  // x_scale * w_scale

@@ c075ae5f in whole/mma-body-sm_90a.cu: // Computes D += A * B, by one warp.
@@ 4+1
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 "

@@ abf43432 in whole/mma-body-sm_90a.cu: // The epilogue's channel parameters of a tile, in shared memory.
@@ 4+1
    float bias[TILE_N];

@@ ffc6f651 in whole/mma-body-sm_90a.cu:     // Loads the channel parameters in the group of the next step, so that the first products do not wait for
@@ 14+2
                tile::shared_address(&channel_parameters.bias[n]),
                args.bias + k, true);

@@ 8383292c in whole/mma-body-sm_90a.cu: struct Shared {
@@ 6+0
    alignas(16) int is_last;  // nonzero if this block is the last to add to its tile

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 7+1
    channel.bias = channel_parameters.bias[n];
    channel.multiplier = args.multiplier;

@@ 9e5d3062 in whole/mma-body-sm_90a.cu: // One block per tile: TILE_M output pixels x TILE_N channels of one group, or of a part of the reduction.
@@ 5+2
    // SPLIT neighbouring blocks share a tile; each takes a part of the reduction.
    const unsigned block = tile::block_x(), part = block % SPLIT;
    const TilePart tile_part(block / SPLIT, first_step(part), first_step(part + 1));
