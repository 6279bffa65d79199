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
WARP_SIZE=64
constexpr int THREADS = 256;  // threads per team
BLOCK_THREADS=256 TILES_H=7 TILES_W=4
constexpr int TILES = 896;  // tiles of all images
GRID_TEAMS=608 LOADS_INPUT=true LOADS_ASYNC=false COPIES_WEIGHTS=false WEIGHTS_BEHIND_INPUT=false
BY_SLICES=false MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=1 MID_PAD_LEFT=1 IN_SMEM_CHUNKS=2 IN_PLANE=161
MID_CHUNKS=9 MID_SMEM_CHUNKS=9 MID_PLANE=161 PART_CHUNKS=12 SMEM_BYTES=28336

@@ // What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 16;  // channels of one instruction
constexpr int SLAB_K = 64;  // output channels per slab, which is a warp's
ALL_SLABS=3 BLOCK_SLABS=3 TAPS=1
constexpr int CHUNKS = 2;  // chunks of 16 input channels that a slab needs
ALL_CHUNKS=2
constexpr int UNITS = 2;  // chunks of a slab's reduction
STEP_CHUNKS=4
constexpr int STEPS = 1;  // along the reduction
WHOLE_TAPS=false IS_ROLLED=false
constexpr int UNROLL = 1;  // steps that are written out
ADDS_WINDOWS=false SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_ROW=16 INTERLEAVED=false SOURCE_PLANE=161
GRID_ROWS=10 GRID_COLUMNS=16 GRID_PIXELS=160 BORDERED_ROWS=10 BORDERED_COLUMNS=16 BORDER_TOP=0 BORDER_LEFT=0
PADS_OUTSIDE=true WIDTH=8 DIVIDED=false HAS_K_REMAINDER=true

// Loads WIDTH bytes of the image, or padding, through registers.
__device__ __forceinline__ void load_vector(
    Team&, const Arguments& args, unsigned char* to, const X* from, int, bool is_inside) {
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

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 4;  // channels per thread
constexpr int RUN = 2;  // neighbouring outputs that share the words of the first

@@ // What follows.
WORDS=1 VECTORS=36 BLOCK_K=144 SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_ROW=16 INTERLEAVED=false GRID_ROWS=8
GRID_COLUMNS=14 GRID_PIXELS=112 DIVIDED=false HAS_K_REMAINDER=false

@@ ebb87e43 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 7+1
    int* taps;  // the weights, repacked

    __device__ __forceinline__ Sink(const Arguments& args, const Tile& out_tile)
        : args(args), out_tile(out_tile) {}
};

// The place of neighbouring channels of a patch of the tile's pixels. All its pixels lie at constant
// distances from the first.
struct OutputPatch {
    static constexpr bool ALL_ROWS = OUT_H % GRID_ROWS == 0 && GRID_ROWS % ROWS == 0;
    static constexpr bool ALL_COLUMNS = OUT_W % GRID_COLUMNS == 0 && GRID_COLUMNS % COLUMNS == 0;

    int rows, columns;  // from the first pixel to the end of the tile or of the image
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

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 4+3
