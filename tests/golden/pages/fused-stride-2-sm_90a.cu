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
constexpr int TILE_H = 8;  // output rows of a tile
TILE_W=8 BLOCKS_PER_SM=1 TEAMS=1 CLUSTER_BLOCKS=1

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 128;  // threads per team
BLOCK_THREADS=128 TILES_H=2 TILES_W=2
constexpr int TILES = 16;  // tiles of all images
GRID_TEAMS=16 LOADS_INPUT=true LOADS_ASYNC=true COPIES_WEIGHTS=true WEIGHTS_BEHIND_INPUT=true BY_SLICES=false
MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=0 MID_PAD_LEFT=0 IN_SMEM_CHUNKS=6 IN_PLANE=313 MID_CHUNKS=6
MID_SMEM_CHUNKS=6 MID_PLANE=65 PART_CHUNKS=6 SMEM_BYTES=140752

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=14 OUT_W=14 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=784 REDUCTION=864 X_SIGNED=true W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=3 BLOCK_SLABS=3 BUFFERS=3 OF_SLAB=1 TAPS=9 CHUNKS=6 UNITS=54 POSITIONS=64
EIGHTS_STRIDE=36 UNROLL_TAPS=9 UNROLL_CHUNKS=3 SOURCE_ROWS=17 SOURCE_COLUMNS=17 SOURCE_ROW=18 INTERLEAVED=true
SOURCE_PLANE=313 GRID_ROWS=8 GRID_COLUMNS=8 GRID_PIXELS=64 BORDERED_ROWS=8 BORDERED_COLUMNS=8 BORDER_TOP=0
BORDER_LEFT=0 PADS_OUTSIDE=false WIDTH=16 DIVIDED=false HAS_K_REMAINDER=false

@@ // The problem.
IN_H=14 IN_W=14 C=96 C_GROUP=96 OUT_H=14 OUT_W=14 K=192 K_GROUP=192 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=784 REDUCTION=96 X_SIGNED=true W_SIGNED=true

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 5+1
        first.load_weights(team);
