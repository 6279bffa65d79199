// conv2d:n=32:h=14:w=14:c=64:k=384:r=1:s=1:x_type=int8:w_type=int8:out_type=uint8:per_channel:y_zero_point:
//     bias=int32:activation=relu6+conv2d:n=32:h=14:w=14:c=384:k=384:r=3:s=3:pad=1,1,1,1:groups=384:
//     x_type=uint8:w_type=int8:out_type=int8:per_channel:x_zero_point:bias=int32:activation=relu
//
// target    sm_90a
// config    fused tile_h=14 tile_w=14 warps=16 blocks_per_sm=1 teams=1 cluster_blocks=4 weights_in_smem=1
//           on_wgmma=1 first_m=1 first_n=4 second_m=2 second_n=1
// launch    first_repack_weights<<<48x1x1, 128, 0 B>>> when: prepare
// launch    second_fold<<<384x1x1, 128, 512 B>>> when: prepare
// launch    second_repack_weights<<<9x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<128x1x1, 512, 44832 B>>> when: call

@@ // The config.
constexpr int TILE_H = 14;  // output rows of a tile
TILE_W=14 BLOCKS_PER_SM=1 TEAMS=1 CLUSTER_BLOCKS=4

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 512;  // threads per team
BLOCK_THREADS=512 TILES_H=1 TILES_W=1
constexpr int TILES = 32;  // tiles of all images
GRID_TEAMS=32 LOADS_INPUT=true LOADS_ASYNC=true COPIES_WEIGHTS=true WEIGHTS_BEHIND_INPUT=false BY_SLICES=true
MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=0 MID_PAD_LEFT=0 IN_SMEM_CHUNKS=4 IN_PLANE=201 MID_CHUNKS=6
MID_SMEM_CHUNKS=6 MID_PLANE=257 PART_CHUNKS=6 SMEM_BYTES=44832

@@ // The problem.
IN_H=14 IN_W=14 C=64 C_GROUP=64 OUT_H=14 OUT_W=14 K=384 K_GROUP=384 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=64 X_SIGNED=true W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=12 BLOCK_SLABS=3 BUFFERS=3 OF_SLAB=1 TAPS=1 CHUNKS=4 UNITS=4 POSITIONS=196
EIGHTS_STRIDE=8 UNROLL_TAPS=1 UNROLL_CHUNKS=2 SOURCE_ROWS=14 SOURCE_COLUMNS=14 SOURCE_ROW=14 INTERLEAVED=false
SOURCE_PLANE=201 GRID_ROWS=14 GRID_COLUMNS=14 GRID_PIXELS=196 BORDERED_ROWS=16 BORDERED_COLUMNS=16
BORDER_TOP=1 BORDER_LEFT=1 PADS_OUTSIDE=false WIDTH=16 DIVIDED=true HAS_K_REMAINDER=false

@@ 332d0a02 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 7+1
    int* fragments;  // the weights, repacked
@@ 9+0
    float y_zero;  // the output zero point

// Writes the padding around the tile's pixels, which is the same for all tiles. A block of a cluster writes
// it in the chunks that it computes: the others come with their padding.
__device__ __forceinline__ void fill_border(const Team& team, Intermediate& tensor, unsigned padding) {
    constexpr int PLACES = BORDERED_ROWS * BORDERED_COLUMNS;
    constexpr bool IN_PARTS = DIVIDED && !BY_SLICES;
    const int first_chunk = IN_PARTS ? team.cluster_block * PART_CHUNKS : 0;
    const int rest = MID_SMEM_CHUNKS - first_chunk;
    const int chunks = IN_PARTS && PART_CHUNKS < rest ? PART_CHUNKS : rest;
    const tile::Words<4> words = {{padding, padding, padding, padding}};
    for (int i = Team::thread(); i < chunks * PLACES; i += THREADS) {
        const unsigned row = i % PLACES / BORDERED_COLUMNS - BORDER_TOP;
        const unsigned column = i % BORDERED_COLUMNS - BORDER_LEFT;
        if (row < GRID_ROWS && column < GRID_COLUMNS) continue;
        *reinterpret_cast<tile::Words<4>*>(tensor.byte[first_chunk + i / PLACES][i % PLACES]) = words;
    }
}

@@ 4c92db2c in whole/fused-small-image-sm_90a.cu: // Loads the parameters of a lane's channels.
@@ 16+0
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].top = args.top;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].y_zero = args.y_zero;

//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   y   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
namespace second {

@@ // The problem.
IN_H=14 IN_W=14 C=384 C_GROUP=1 OUT_H=14 OUT_W=14 K=384 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=9 X_SIGNED=false W_SIGNED=true

@@ // What follows.
WORDS=1 VECTORS=96 BLOCK_K=96 SOURCE_ROWS=16 SOURCE_COLUMNS=16 SOURCE_ROW=16 INTERLEAVED=false GRID_ROWS=14
GRID_COLUMNS=14 GRID_PIXELS=196 DIVIDED=true HAS_K_REMAINDER=false FOLD_THREADS=128

using X = unsigned char;
using W = signed char;
using Sum = int;
using Output = signed char;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 3+1
@@ 8+1
@@ 10+2
    int* taps;  // the weights, repacked

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 5+1
        first.load_weights(team);
        first::fill_border(
            team, activations.mid, second.padding());
