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

// What follows.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 128;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 128;
constexpr int TILES_H = 7;  // tiles down an image
constexpr int TILES_W = 4;  // tiles across an image
constexpr int TILES = 896;  // tiles of all images
constexpr int GRID_TEAMS = 132;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = true;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = true;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = true;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = true;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 1;
constexpr int MID_PAD_LEFT = 1;
constexpr int IN_SMEM_CHUNKS = 2;
constexpr int IN_PLANE = 161;
constexpr int MID_CHUNKS = 6;  // chunks of 16 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 6;  // chunks in shared memory
constexpr int MID_PLANE = 161;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 6;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 24832;

@@ ff69ff9f in pages/fused-pointwise-depthwise-gfx942.hip: // What follows.
@@ 2+4
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 32;  // output channels per slab, which is a warpgroup's
constexpr int ALL_SLABS = 5;
@@ 7+0
constexpr int BUFFERS = 3;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 1;  // warpgroups that multiply a slab together
@@ 8+9
constexpr int CHUNKS = 2;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 2;  // chunks of the reduction
constexpr int POSITIONS = 160;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 8;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 1;  // taps that are written out
constexpr int UNROLL_CHUNKS = 1;  // pairs of chunks that are written out
@@ 31+1
constexpr bool DIVIDED = true;  // each of several blocks computes some output channels

@@ 7d51c7a5 in pages/fused-pointwise-depthwise-gfx942.hip: // What follows.
@@ 4+1
constexpr int BLOCK_K = 96;  // channels per block
@@ 12+1
constexpr bool DIVIDED = true;  // each of several blocks computes some output channels

@@ 07c5ec7a in whole/fused-small-image-sm_90a.cu: // The shared memory of a block.
@@ 4+1
    alignas(16) first::SmemWeights first_weights;
