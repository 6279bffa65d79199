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

@@ 319d5e59 in pages/fused-warpgroups-sm_90a.cu: // The config.
@@ 5+1
constexpr int TEAMS = 1;  // teams per block; each computes tiles of its own

@@ f58d040e in pages/fused-warpgroups-sm_90a.cu: // What follows.
@@ 4+5
[[maybe_unused]] constexpr int BLOCK_THREADS = 128;
constexpr int TILES_H = 2;  // tiles down an image
constexpr int TILES_W = 2;  // tiles across an image
constexpr int TILES = 16;  // tiles of all images
constexpr int GRID_TEAMS = 16;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 12+1
constexpr bool WEIGHTS_BEHIND_INPUT = true;  // the last ones after the input
@@ 19+1
constexpr int IN_PLANE = 313;
@@ 24+1
constexpr int SMEM_BYTES = 140752;

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=14 OUT_W=14 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=784 REDUCTION=864 X_SIGNED=true W_SIGNED=true

@@ f5b8a786 in pages/fused-warpgroups-sm_90a.cu: // What follows.
@@ 12+1
constexpr int EIGHTS_STRIDE = 36;  // pixels from eight pixels to the next eight
@@ 15+5
constexpr int SOURCE_ROWS = 17;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 17;
[[maybe_unused]] constexpr int SOURCE_ROW = 18;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = true;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 313;

@@ // The problem.
IN_H=14 IN_W=14 C=96 C_GROUP=96 OUT_H=14 OUT_W=14 K=192 K_GROUP=192 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=784 REDUCTION=96 X_SIGNED=true W_SIGNED=true

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 5+1
        first.load_weights(team);
