// conv2d:n=32:h=56:w=56:c=24:k=144:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:
//     activation=relu+conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    fused tile_h=8 tile_w=14 warps=4 blocks_per_sm=2 teams=1 cluster_blocks=2 weights_in_smem=1
//           on_wgmma=1 first_m=1 first_n=4 second_m=2 second_n=1
// launch    first_repack_weights<<<12x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<264x1x1, 128, 24832 B>>> when: call

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 128;  // threads per team
BLOCK_THREADS=128 TILES_H=7 TILES_W=4
constexpr int TILES = 896;  // tiles of all images
GRID_TEAMS=132 LOADS_INPUT=true LOADS_ASYNC=true COPIES_WEIGHTS=true WEIGHTS_BEHIND_INPUT=false BY_SLICES=true
MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=1 MID_PAD_LEFT=1 IN_SMEM_CHUNKS=2 IN_PLANE=161 MID_CHUNKS=6
MID_SMEM_CHUNKS=6 MID_PLANE=161 PART_CHUNKS=6 SMEM_BYTES=24832

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=5 BLOCK_SLABS=3 BUFFERS=3 OF_SLAB=1 TAPS=1 CHUNKS=2 UNITS=2 POSITIONS=160
EIGHTS_STRIDE=8 UNROLL_TAPS=1 UNROLL_CHUNKS=1 SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_ROW=16 INTERLEAVED=false
SOURCE_PLANE=161 GRID_ROWS=10 GRID_COLUMNS=16 GRID_PIXELS=160 BORDERED_ROWS=10 BORDERED_COLUMNS=16
BORDER_TOP=0 BORDER_LEFT=0 PADS_OUTSIDE=true WIDTH=8 DIVIDED=true HAS_K_REMAINDER=true

@@ // What follows.
WORDS=1 VECTORS=36 BLOCK_K=96 SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_ROW=16 INTERLEAVED=false GRID_ROWS=8
GRID_COLUMNS=14 GRID_PIXELS=112 DIVIDED=true HAS_K_REMAINDER=false

@@ 07c5ec7a in whole/fused-small-image-sm_90a.cu: // The shared memory of a block.
@@ 4+1
    alignas(16) first::SmemWeights first_weights;
