// conv2d:n=32:h=56:w=56:c=24:k=144:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:
//     activation=relu+conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    gfx942
// config    fused tile_h=8 tile_w=14 warps=4 blocks_per_sm=2 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=0 first_m=2 first_n=4 second_m=2 second_n=1
// launch    first_repack_weights<<<32x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<608x1x1, 256, 28336 B>>> when: call

@@ // What follows.
WARP_SIZE=64 THREADS=256 TILES_H=7 TILES_W=4 TILES=896 GRID_TEAMS=608 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=1 MID_PAD_LEFT=1 IN_CHUNKS=2 IN_PLANE=161 MID_CHUNKS=9 MID_PLANE=161 SMEM_BYTES=28336

@@ // What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 16;  // channels of one instruction
constexpr int SLAB_K = 64;  // output channels of a warp
ALL_SLABS=3 BLOCK_SLABS=3 TAPS=1
constexpr int CHUNKS = 2;  // of 16 input channels that a slab looks at
ALL_CHUNKS=2
constexpr int UNITS = 2;  // chunks of a slab's reduction
STEP_CHUNKS=4
constexpr int STEPS = 1;  // along the reduction
SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_PLANE=161 GRID_ROWS=10 GRID_COLUMNS=16 GRID_PIXELS=160 WIDTH=8
HAS_K_REMAINDER=true

// A few bytes of the image, or padding.
__device__ __forceinline__ void load_vector(
    [[maybe_unused]] Team& team, [[maybe_unused]] const Arguments& args, unsigned char* to, const X* from,
    [[maybe_unused]] int c, bool is_inside) {
    tile::Words<WIDTH / 4> words;
#pragma unroll
    for (unsigned& word : words.word) word = padding_word(args);
    if (is_inside) words = tile::load_words<WIDTH / 4>(from);
    *reinterpret_cast<tile::Words<WIDTH / 4>*>(to) = words;
}

using Address = const unsigned char*;
__device__ __forceinline__ Address address_of(const unsigned char* byte) { return byte; }

// Loads 16 bytes of the lane's pixel.
__device__ __forceinline__ XFragment load_pixels(Address address) {
    XFragment fragment;
    const auto words = tile::load_shared<4>(reinterpret_cast<const unsigned*>(address));
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment.word[i] = words.word[i];
    return fragment;
}

// Layout of a lane's weights: 16 bytes of one row of the atom.
constexpr int W_WORDS = 4;
__device__ __forceinline__ int row_of_lane(int lane) { return lane % ATOM_ROWS; }
__device__ __forceinline__ int chunk_of_word(int lane, int) { return lane / ATOM_ROWS % STEP_CHUNKS; }
__device__ __forceinline__ int byte_of_word(int, int word) { return word * 4; }

@@ f27fdeb3 in pages/fused-depthwise-pointwise-sm_90a.cu: // All products of a slab with BATCH atoms of pixels. The weights of the next step come while one is
@@ 8+1
#pragma unroll
@@ 12+1
        int offset = offset_of(unit);
#pragma unroll
        for (int i = 1; i < STEP_CHUNKS; ++i) offset = lane_chunk == i ? offset_of(unit + i) : offset;

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 4;  // channels of a thread
constexpr int RUN = 2;  // neighbouring outputs that share the words of the first

@@ cedd3757 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 7+1
    int* taps;  // the weights as the lanes read them

    __device__ __forceinline__ Sink(const Arguments& args, const Tile& out_tile)
        : args(args), out_tile(out_tile) {}
};

// Where neighbouring channels of a patch of the tile's pixels go. All its pixels lie at constant distances
// from the first.
struct OutputPatch {
    static constexpr bool ALL_ROWS = OUT_H % GRID_ROWS == 0 && GRID_ROWS % ROWS == 0;
    static constexpr bool ALL_COLUMNS = OUT_W % GRID_COLUMNS == 0 && GRID_COLUMNS % COLUMNS == 0;

    int rows, columns;  // from the first to the end of the tile or of the image
    Output* corner;

    __device__ __forceinline__ OutputPatch(const Sink& sink, int row_of_tile, int column_of_tile, int k) {
        const int row = sink.out_tile.row + row_of_tile, column = sink.out_tile.column + column_of_tile;
        const int first = ((sink.out_tile.n * OUT_H + row) * OUT_W + column) * K + k;
        const int rows_of_tile = GRID_ROWS - row_of_tile, columns_of_tile = GRID_COLUMNS - column_of_tile;
        rows = OUT_H - row < rows_of_tile ? OUT_H - row : rows_of_tile;
        columns = OUT_W - column < columns_of_tile ? OUT_W - column : columns_of_tile;
        corner = sink.args.y + first;
    }

    __device__ __forceinline__ bool exists(int down, int across) const {
        return (ALL_ROWS || down < rows) && (ALL_COLUMNS || across < columns);
    }

    __device__ __forceinline__ void put(int down, int across, const Finished (&finished)[VECTOR]) const {
        if (exists(down, across)) write(corner + (down * OUT_W + across) * K, finished);
    }
};

// Persistent blocks, as many as are resident at a time, have one tile after the other.
// The first convolution leaves its outputs in shared memory, as bytes, where the second finds its inputs.
// The next tile's input comes meanwhile.
extern "C" __global__ void __launch_bounds__(THREADS)
conv2d_conv2d(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Team team;
    Activations& activations = shared.activations;
    first::load_input(team, args.first, activations.input, Tile(team.first_tile()));
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        tile::barrier();  // the input is there, and the last intermediate has been read
        const first::Sink mid(activations.mid, out_tile, second::padding_word(args.second));
        first::run(team, args.first, activations.input, mid);
        const second::OwnChannels second_own(args.second, second::own_k(team));
        tile::barrier();
        if (index + GRID_TEAMS < TILES) {
            first::load_input(team, args.first, activations.input, Tile(index + GRID_TEAMS));
        }
        const second::Sink out(args.second, out_tile);
        second::run(team, args.second, second_own, activations.mid, out);
    }
}
