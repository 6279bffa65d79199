// conv2d:n=4:h=28:w=28:c=96:k=96:r=3:s=3:stride=2,2:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu+conv2d:n=4:h=14:w=14:c=96:k=192:r=1:s=1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    fused tile_h=8 tile_w=8 warps=4 blocks_per_sm=1 teams=1 cluster_blocks=1 weights_in_smem=2
//           on_wgmma=2 first_m=1 first_n=4 second_m=1 second_n=8
// launch    first_repack_weights<<<162x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<36x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<16x1x1, 128, 140752 B>>> when: call

@@ // The config.
constexpr int TILE_H = 8;  // output rows of a block
TILE_W=8 BLOCKS_PER_SM=1

@@ // What follows.
WARP_SIZE=32 THREADS=128 TILES_H=2 TILES_W=2 TILES=16 GRID_TEAMS=16 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=0 MID_PAD_LEFT=0 IN_CHUNKS=6 IN_PLANE=313 MID_CHUNKS=6 MID_PLANE=65 SMEM_BYTES=140752

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=14 OUT_W=14 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=784 REDUCTION=864 X_SIGNED=true W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=3 BLOCK_SLABS=3 TAPS=9 CHUNKS=6 UNITS=54 POSITIONS=64 EIGHTS_STRIDE=36
SOURCE_ROWS=17 SOURCE_COLUMNS=17 SOURCE_ROW=18 SOURCE_PLANE=313 GRID_ROWS=8 GRID_COLUMNS=8 GRID_PIXELS=64
WIDTH=16 HAS_K_REMAINDER=false

// How the columns of an input row lie in shared memory: those that neighbouring outputs look at are
// neighbours, on different banks.
struct Interleaved {
    static constexpr int ROW = SOURCE_ROW;  // from a row to the next
    static constexpr int PHASE = (SOURCE_COLUMNS + STRIDE_W - 1) / STRIDE_W;  // every STRIDE_W-th column
    static_assert(ROW >= STRIDE_W * PHASE, "ROW must have STRIDE_W phases");

    static constexpr __device__ int column(int i) { return i % STRIDE_W * PHASE + i / STRIDE_W; }
};
using Layout = Interleaved;

@@ 94c7c71a in whole/fused-small-image-sm_90a.cu: // A warpgroup has SLAB_K output channels of RUN pixels at a time. Both factors lie in shared memory, in
@@ 9+3
static_assert(GRID_COLUMNS == 8 && EIGHTS_STRIDE == STRIDE_H * SOURCE_ROW, "GRID_COLUMNS must be 8");

@@ c366ad82 in whole/fused-small-image-sm_90a.cu: // Copies the block's weights, and its channel parameters, to shared memory: asks for them, and does not wait.
@@ 6+1
#pragma unroll 4
    for (int i = tile::thread() * 16; i < BYTES; i += THREADS * 16) {
        team.copies.copy<16>(tile::shared_address(&smem.weights[0][0][0][0] + i), from + i / 4, true);
    }

@@ // The problem.
IN_H=14 IN_W=14 C=96 C_GROUP=96 OUT_H=14 OUT_W=14 K=192 K_GROUP=192 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=784 REDUCTION=96 X_SIGNED=true W_SIGNED=true

@@ aea5eeca in whole/fused-small-image-sm_90a.cu: struct Shared {
@@ 3+0
    first::SmemWeights first_weights;

@@ d139949e in whole/fused-small-image-sm_90a.cu: // A block has one tile.
@@ 11+0
    first::load_weights(team, args.first, shared.first_weights);
    tile::wait_on_dependency();
    first::load_input(team, args.first, activations.input, out_tile);
    team.copies.commit();
@@ 12+2
    team.copies.commit();  // nobody waits for them before the first convolution
    team.copies.wait<1>();
    tile::fence_proxy_async();
    tile::barrier();  // the input is there
@@ 15+1
    first::run(team, args.first, shared.first_weights, activations.input, mid);
