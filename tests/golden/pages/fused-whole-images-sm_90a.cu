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

// The config.
constexpr int TILE_H = 14;  // output rows of a tile
constexpr int TILE_W = 14;  // output columns of a tile
constexpr int BLOCKS_PER_SM = 1;  // resident blocks per multiprocessor
constexpr int TEAMS = 1;  // teams per block; each computes tiles of its own
[[maybe_unused]] constexpr int CLUSTER_BLOCKS = 4;  // blocks that compute a tile together

// What follows.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 512;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 512;
constexpr int TILES_H = 1;  // tiles down an image
constexpr int TILES_W = 1;  // tiles across an image
constexpr int TILES = 32;  // tiles of all images
constexpr int GRID_TEAMS = 32;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = true;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = true;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = true;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = true;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 0;
constexpr int MID_PAD_LEFT = 0;
constexpr int IN_SMEM_CHUNKS = 4;
constexpr int IN_PLANE = 201;
constexpr int MID_CHUNKS = 6;  // chunks of 16 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 6;  // chunks in shared memory
constexpr int MID_PLANE = 257;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 6;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 44832;

@@ // The problem.
IN_H=14 IN_W=14 C=64 C_GROUP=64 OUT_H=14 OUT_W=14 K=384 K_GROUP=384 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=64 X_SIGNED=true W_SIGNED=true

// What follows.
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 32;  // output channels per slab, which is a warpgroup's
constexpr int ALL_SLABS = 12;
constexpr int BLOCK_SLABS = 3;  // slabs per block
constexpr int BUFFERS = 3;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 1;  // warpgroups that multiply a slab together
constexpr int TAPS = 1;
constexpr int CHUNKS = 4;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 4;  // chunks of the reduction
constexpr int POSITIONS = 196;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 8;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 1;  // taps that are written out
constexpr int UNROLL_CHUNKS = 2;  // pairs of chunks that are written out
constexpr int SOURCE_ROWS = 14;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 14;
[[maybe_unused]] constexpr int SOURCE_ROW = 14;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 201;
constexpr int GRID_ROWS = 14;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 196;
constexpr int BORDERED_ROWS = 16;  // those rows and the padding around them
constexpr int BORDERED_COLUMNS = 16;
constexpr int BORDER_TOP = 1;  // rows of padding above
constexpr int BORDER_LEFT = 1;
constexpr bool PADS_OUTSIDE = false;  // pixels outside the image are written as padding
constexpr int WIDTH = 16;  // bytes of the input per load
constexpr bool DIVIDED = true;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist

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

// What follows.
constexpr int WORDS = 1;  // words of four taps per filter row
constexpr int VECTORS = 96;  // vectors of channels
constexpr int BLOCK_K = 96;  // channels per block
constexpr int SOURCE_ROWS = 16;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 16;
[[maybe_unused]] constexpr int SOURCE_ROW = 16;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int GRID_ROWS = 14;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 196;
constexpr bool DIVIDED = true;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist
constexpr int FOLD_THREADS = 128;

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
