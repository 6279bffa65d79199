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
WARP_SIZE=32 THREADS=128 TILES_H=7 TILES_W=4 TILES=896 GRID_TEAMS=132 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=1 MID_PAD_LEFT=1 IN_CHUNKS=2 IN_PLANE=161
constexpr int MID_CHUNKS = 6;  // of 16 channels, of a block
MID_PLANE=161 SMEM_BYTES=24832

@@ ae7c823e in pages/fused-cluster-sm_90a.cu: // The threads that have a tile together: all of a block.
@@ 5+1
    tile::Copies copies;

@@ db3fd683 in pages/fused-cluster-sm_90a.cu:     __device__ __forceinline__ Team()
@@ 6+1
    static __device__ __forceinline__ int warpgroup() { return tile::warpgroup(); }

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=5 BLOCK_SLABS=3 TAPS=1 CHUNKS=2 UNITS=2 POSITIONS=160 EIGHTS_STRIDE=8
SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_PLANE=161 GRID_ROWS=10 GRID_COLUMNS=16 GRID_PIXELS=160 WIDTH=8
HAS_K_REMAINDER=true

// What takes the outputs: a tile of pixels in shared memory, as the second convolution reads it.
using Intermediate = Mid;
struct Sink {
    Intermediate& tensor;
    int first_k;  // of the block's channels
    int row, column;  // of the tile's first pixel in the image
    unsigned padding;  // four bytes of it

    __device__ __forceinline__ Sink(Intermediate& tensor, int first_k, const Tile& out_tile, unsigned padding)
        : tensor(tensor),
          first_k(first_k),
          row(out_tile.mid_row()),
          column(out_tile.mid_column()),
          padding(padding) {}

@@ c1764b8c in pages/fused-warpgroups-sm_90a.cu:     // Neighbouring channels of a pixel of the tile.
@@ 4+0
        const unsigned in_row = row + pixel / GRID_COLUMNS, in_column = column + pixel % GRID_COLUMNS;
        const bool is_padding = in_row >= OUT_H || in_column >= OUT_W;
@@ 7+3
            const int of_block = k + i - first_k;
            unsigned char* const to = &tensor.byte[of_block / 16][pixel][of_block % 16];
            auto& some = *reinterpret_cast<Finished(*)[STORE_K]>(&finished[i]);
            write_or_pad(reinterpret_cast<Output*>(to), some, is_padding, padding);

@@ // What follows.
WORDS=1 VECTORS=36 BLOCK_K=96 SOURCE_ROWS=10 SOURCE_COLUMNS=16 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=false

// Outputs of a thread: ROWS by COLUMNS pixels of VECTOR channels.
static_assert(C_GROUP == 1 && K_GROUP == 1 && C % VECTOR == 0, "C_GROUP and K_GROUP must be 1");
static_assert(BLOCK_K == MID_CHUNKS * 16, "BLOCK_K must be the channels of the intermediate");

@@ 7e328aeb in shared.hip: // The outputs of a tile's pixels. A thread keeps its channels while it goes from patch to patch.
@@ 11+1
            const InputPatch from(args, source, row, column, own.k - begin_k(team));

@@ aea5eeca in whole/fused-small-image-sm_90a.cu: struct Shared {
@@ 3+1
    first::SmemWeights first_weights;

// CLUSTER_BLOCKS blocks have each tile together. Each has some of the channels, in both layers.
// The first convolution leaves its outputs in shared memory, as bytes, where the second finds its inputs.
// The next tile's input comes meanwhile.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
conv2d_conv2d(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Team team;
    tile::launch_dependents();
    Activations& activations = shared.activations;
    first::load_weights(team, args.first, shared.first_weights);
    tile::wait_on_dependency();
    first::load_input(team, args.first, activations.input, Tile(team.first_tile()));
    team.copies.commit();
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        team.copies.wait<0>();
        tile::fence_proxy_async();
        tile::barrier();  // the input is there, and the last intermediate has been read
        const int first_k = team.cluster_block * (MID_CHUNKS * 16);
        const first::Sink mid(activations.mid, first_k, out_tile, second::padding_word(args.second));
        first::run(team, args.first, shared.first_weights, activations.input, mid);
        const second::OwnChannels second_own(args.second, second::own_k(team));
        tile::barrier();
        if (index + GRID_TEAMS < TILES) {
            first::load_input(team, args.first, activations.input, Tile(index + GRID_TEAMS));
        }
        team.copies.commit();
        const second::Sink out(args.second, out_tile);
        second::run(team, args.second, second_own, activations.mid, out);
    }
}
