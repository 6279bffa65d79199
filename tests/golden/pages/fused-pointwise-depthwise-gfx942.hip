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

// What follows.
constexpr int WARP_SIZE = 64;
constexpr int THREADS = 256;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 256;
constexpr int TILES_H = 7;  // tiles down an image
constexpr int TILES_W = 4;  // tiles across an image
constexpr int TILES = 896;  // tiles of all images
constexpr int GRID_TEAMS = 608;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = true;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = false;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = false;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = false;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 1;
constexpr int MID_PAD_LEFT = 1;
constexpr int IN_SMEM_CHUNKS = 2;
constexpr int IN_PLANE = 161;
constexpr int MID_CHUNKS = 9;  // chunks of 16 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 9;  // chunks in shared memory
constexpr int MID_PLANE = 161;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 12;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 28336;

// What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 16;  // channels of one instruction
constexpr int SLAB_K = 64;  // output channels per slab, which is a warp's
constexpr int ALL_SLABS = 3;
constexpr int BLOCK_SLABS = 3;  // slabs per block
constexpr int TAPS = 1;
constexpr int CHUNKS = 2;  // chunks of 16 input channels that a slab needs
constexpr int ALL_CHUNKS = 2;
constexpr int UNITS = 2;  // chunks of a slab's reduction
constexpr int STEP_CHUNKS = 4;  // chunks per step, which is an instruction or two
constexpr int STEPS = 1;  // along the reduction
constexpr bool WHOLE_TAPS = false;  // no step reads chunks of two taps
[[maybe_unused]] constexpr bool IS_ROLLED = false;  // the loop over steps is not written out whole
constexpr int UNROLL = 1;  // steps that are written out
constexpr bool ADDS_WINDOWS = false;  // the sums of windows are needed
constexpr int SOURCE_ROWS = 10;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 16;
[[maybe_unused]] constexpr int SOURCE_ROW = 16;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 161;
constexpr int GRID_ROWS = 10;  // output rows of a tile
constexpr int GRID_COLUMNS = 16;
constexpr int GRID_PIXELS = 160;
constexpr int BORDERED_ROWS = 10;  // those rows and the padding around them
constexpr int BORDERED_COLUMNS = 16;
constexpr int BORDER_TOP = 0;  // rows of padding above
constexpr int BORDER_LEFT = 0;
constexpr bool PADS_OUTSIDE = true;  // pixels outside the image are written as padding
constexpr int WIDTH = 8;  // bytes of the input per load
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = true;  // the last slab has channels that do not exist

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 4;  // channels per thread
RUN=2

// What follows.
constexpr int WORDS = 1;  // words of four taps per filter row
constexpr int VECTORS = 36;  // vectors of channels
constexpr int BLOCK_K = 144;  // channels per block
constexpr int SOURCE_ROWS = 10;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 16;
[[maybe_unused]] constexpr int SOURCE_ROW = 16;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int GRID_ROWS = 8;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 112;
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist

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
