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
constexpr int TILE_H = 14;  // output rows of a block
TILE_W=14 BLOCKS_PER_SM=1 CLUSTER_BLOCKS=4

@@ // What follows.
WARP_SIZE=32 THREADS=512 TILES_H=1 TILES_W=1 TILES=32 GRID_TEAMS=32 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=0 MID_PAD_LEFT=0 IN_CHUNKS=4 IN_PLANE=201
constexpr int MID_CHUNKS = 6;  // of 16 channels, of a block
MID_PLANE=257 SMEM_BYTES=44832

@@ // The problem.
IN_H=14 IN_W=14 C=64 C_GROUP=64 OUT_H=14 OUT_W=14 K=384 K_GROUP=384 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=64 X_SIGNED=true W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=12 BLOCK_SLABS=3 TAPS=1 CHUNKS=4 UNITS=4 POSITIONS=196 EIGHTS_STRIDE=8
SOURCE_ROWS=14 SOURCE_COLUMNS=14 SOURCE_PLANE=201 GRID_ROWS=14 GRID_COLUMNS=14 GRID_PIXELS=196
BORDERED_ROWS=16 BORDERED_COLUMNS=16 BORDER_TOP=1 BORDER_LEFT=1 WIDTH=16 HAS_K_REMAINDER=false

@@ 41982626 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 7+1
    int* fragments;  // the weights as the lanes read them
@@ 9+0
    float y_zero;  // the output zero point

// Where a pixel of the tile lies in it.
__device__ __forceinline__ int place_of(int row, int column) {
    return (row + BORDER_TOP) * BORDERED_COLUMNS + column + BORDER_LEFT;
}

// What lies around the tile's pixels is the same for all tiles: it is written once.
__device__ __forceinline__ void fill_border(Mid& tensor, unsigned padding) {
    constexpr int chunks = sizeof(tensor.byte) / sizeof(tensor.byte[0]), first_chunk = 0;
    constexpr int PLACES = BORDERED_ROWS * BORDERED_COLUMNS;
    const tile::Words<4> words = {{padding, padding, padding, padding}};
    for (int i = Team::thread(); i < chunks * PLACES; i += THREADS) {
        const unsigned row = i % PLACES / BORDERED_COLUMNS - BORDER_TOP;
        const unsigned column = i % BORDERED_COLUMNS - BORDER_LEFT;
        if (row < GRID_ROWS && column < GRID_COLUMNS) continue;
        *reinterpret_cast<tile::Words<4>*>(tensor.byte[first_chunk + i / PLACES][i % PLACES]) = words;
    }
}

@@ c598f4ca in pages/fused-slices-sm_90a.cu: // What takes the outputs: a tile of pixels in shared memory, as the second convolution reads it.
@@ 6+2

    __device__ __forceinline__ Sink(Intermediate& tensor, int first_k) : tensor(tensor), first_k(first_k) {}

@@ c1764b8c in pages/fused-warpgroups-sm_90a.cu:     // Neighbouring channels of a pixel of the tile.
@@ 4+0
        const int place = place_of(pixel / GRID_COLUMNS, pixel % GRID_COLUMNS);
@@ 7+2
            const int of_block = k + i - first_k;
            unsigned char* const to = &tensor.byte[of_block / 16][place][of_block % 16];

@@ 59669e02 in whole/fused-small-image-sm_90a.cu: // The channel parameters of a lane's channels.
@@ 16+0
            channels[i + j].top = args.top;
            channels[i + j].y_zero = args.y_zero;

//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   y   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
namespace second {

@@ // The problem.
IN_H=14 IN_W=14 C=384 C_GROUP=1 OUT_H=14 OUT_W=14 K=384 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=9 X_SIGNED=false W_SIGNED=true

@@ // What follows.
WORDS=1 VECTORS=96 BLOCK_K=96 SOURCE_ROWS=16 SOURCE_COLUMNS=16 GRID_ROWS=14 GRID_COLUMNS=14 GRID_PIXELS=196
HAS_K_REMAINDER=false FOLD_THREADS=128

using X = unsigned char;
using W = signed char;
using Sum = int;
using Output = signed char;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 3+1
@@ 8+1
@@ 10+2
    int* taps;  // the weights as the lanes read them

// CLUSTER_BLOCKS blocks have each tile together. Each has some of the channels, in both layers.
// The first convolution leaves its outputs in shared memory, as bytes, where the second finds its inputs.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
conv2d_conv2d(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Team team;
    tile::launch_dependents();
    Activations& activations = shared.activations;
    static_assert(GRID_TEAMS == TILES, "there must be a block for each tile");
    const Tile out_tile(team.first_tile());
    first::load_weights(team, args.first, shared.first_weights);
    first::fill_border(activations.mid, second::padding_word(args.second));
    tile::wait_on_dependency();
    first::load_input(team, args.first, activations.input, out_tile);
    team.copies.commit();
    team.copies.wait<0>();
    tile::fence_proxy_async();
    tile::barrier();  // the input is there
    const int first_k = team.cluster_block * (MID_CHUNKS * 16);
    const first::Sink mid(activations.mid, first_k);
    first::run(team, args.first, shared.first_weights, activations.input, mid);
    const second::OwnChannels second_own(args.second, second::own_k(team));
    tile::barrier();
    const second::Sink out(args.second, out_tile);
    second::run(team, args.second, second_own, activations.mid, out);
}
