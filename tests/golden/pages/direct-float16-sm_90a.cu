// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:groups=32:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    direct tile_h=14 tile_w=16 slabs=2 warps=4 batch=2 blocks_per_sm=3
// launch    conv2d_repack_weights<<<40x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_direct<<<256x1x1, 128, 29248 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=4 OUT_H=28 OUT_W=28 K=128 K_GROUP=4 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=36 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int TILE_H = 14;  // output rows per tile
TILE_W=16
constexpr int SLABS = 2;  // slabs of channels per block
WARPS=4
constexpr int BATCH = 2;  // groups of 16 pixels that a warp computes together
BLOCKS_PER_SM=3

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS=9
constexpr int CHUNKS = 1;  // chunks of 16 bytes of input channels per slab
CHANNEL_BYTES=2 PARTS=1 SLAB_K=8 ALL_SLABS=16 STEPS=5
constexpr int ATOMS = 1;  // instructions per step
TILES_H=2 TILES_W=2 SLAB_TILES=8 TILES=256 GRID_BLOCKS=256
constexpr int X_BYTES = 16;  // bytes per copy of x
constexpr int VECTOR_K = 8;  // channels per store
SMEM_BYTES=29248

@@ ddcf25d5 in pages/direct-depthwise-sm_90a.cu: static_assert(REDUCTION == TAPS * C_GROUP && TAPS == R * S, "REDUCTION must be R * S * C_GROUP");
@@ 2+1
static_assert(STEPS == (TAPS * CHUNKS + 1) / 2, "STEPS must be half of the chunks of 16 bytes");
static_assert(X_SIGNED && W_SIGNED, "floats are signed");
static_assert(PARTS == 1 || C_GROUP * CHANNEL_BYTES == CHUNKS * 16, "one group alone is split into parts");
static_assert(SLABS % PARTS == 0, "a block must have all parts of its channels");

@@ 28f10cce in pages/direct-depthwise-sm_90a.cu: // The input of a block's tile: one plane per chunk, with 16 bytes of every pixel. Eight neighbouring pixels
@@ 9+1
// PARTS slabs have the same input channels, and others of the group's output channels.
struct Input { alignas(16) unsigned char byte[SLABS / PARTS * CHUNKS][PLANE][16]; };

// Input channels per chunk and per slab.
constexpr int CHUNK_C = 16 / CHANNEL_BYTES, SLAB_C = CHUNKS * CHUNK_C;
static_assert(sizeof(X) == CHANNEL_BYTES && sizeof(W) == CHANNEL_BYTES,
              "a word of weights must have as many elements as a word of channels");

// Loads a tile of the input; each byte is copied to shared memory once. A thread copies the same channels of
// several pixels, so that it computes their addresses once.
__device__ __forceinline__ void load_tile(
    const Arguments& args, Input& input, const Tile& tile, tile::Copies& copies) {
    constexpr int COPIED = X_BYTES / CHANNEL_BYTES, PER_PIXEL = SLABS / PARTS * SLAB_C / COPIED;
    constexpr int TEAM = PER_PIXEL < THREADS ? PER_PIXEL : THREADS, TEAMS = THREADS / TEAM;
    const int first_row = tile.row * STRIDE_H - PAD_TOP, first_column = tile.column * STRIDE_W - PAD_LEFT;
    const int team = tile::thread() / TEAM;
    for (int i = tile::thread() % TEAM; team < TEAMS && i < PER_PIXEL; i += TEAM) {
        const int channel = i * COPIED, c = tile.slab / PARTS * SLAB_C + channel;
        const auto to = tile::shared_address(
            &input.byte[channel / CHUNK_C][0][channel % CHUNK_C * CHANNEL_BYTES]);
        const X* const from = args.x + (tile.n * (IN_H * IN_W * C) + c);
#pragma unroll 4
        for (int pixel = team; pixel < IN_PIXELS; pixel += TEAMS) {
            const unsigned row = first_row + pixel / IN_COLUMNS, column = first_column + pixel % IN_COLUMNS;
            const bool is_inside = ALL_INSIDE || (row < IN_H && column < IN_W);
            copies.copy<X_BYTES>(to + pixel * 16, from + (row * IN_W + column) * C, is_inside && c < C);
        }
    }
    copies.commit();
}

// Element `i` of register `half` of B in a lane, for output channel `k` of the slab: the index of its weight,
// and whether the input channel belongs to the output channel's group. The chunks of one tap are consecutive.
struct Element { int at; bool exists; };
__device__ __forceinline__ Element element_of(int k, int step, int half, int lane, int i) {
    const int unit = 2 * step + half, c = unit % CHUNKS * CHUNK_C + lane % 4 * (CHUNK_C / 4) + i;
    return {unit / CHUNKS * C_GROUP + c % C_GROUP, unit < TAPS * CHUNKS && k / K_GROUP == c / C_GROUP};
}

static_assert(BATCH == 2 && TILE_W == 16 && TILE_H % 2 == 0 && STRIDE_H == DILATION_H,
              "the second group of 16 pixels must be one row of taps below the first");
// The two units of a load are neighbouring chunks of a tap or, where their number is odd, the same chunk in
// two rows of taps.
constexpr int ROWS_OF_LOAD = CHUNKS % 2 == 0 ? 1 : 2, CHUNKS_OF_LOAD = 2 / ROWS_OF_LOAD;

// Adds the products of a load of matrices, which begins at row `row` of a group's filter, to the group's
// sums. Units past the filter are multiplied by zeros.
__device__ __forceinline__ void add_products(
    const unsigned (&x)[A_REGISTERS], int row, int s, int chunk, const Filters& filters, Sums& sums) {
    const int last_row = row + ROWS_OF_LOAD - 1;
    const bool has_first = row >= 0 && row < R, has_second = last_row >= 0 && last_row < R;
    if (!has_first && !has_second) return;
    const int first = (row * S + s) * CHUNKS + chunk;
    const int second = first + (ROWS_OF_LOAD == 1 ? 1 : S * CHUNKS);
#pragma unroll
    for (int j = 0; j < ATOMS; ++j) {
        unsigned pair[B_REGISTERS] = {};
        if (has_first) pair[0] = filters.word[first / 2][j][first % 2];
        if (has_second) pair[1] = filters.word[second / 2][j][second % 2];
        multiply_add(x, pair, sums.product[j]);
    }
}

// Computes all products of two groups of 16 pixels, one below the other. Each row of their windows is loaded
// once for both. Lane l supplies the address of pixel l % 16, in the first or the second unit of a load.
__device__ __forceinline__ void multiply(
    Input& input, int local_slab, int first_sixteen, const Filters& filters, Sums (&sums)[BATCH]) {
    const int half = tile::lane() / 16, local = tile::lane() % 16;
    const auto base = tile::shared_address(&input.byte[local_slab / PARTS * CHUNKS][0][0]);
    const auto window = base + (first_sixteen * STRIDE_H * IN_COLUMNS + local * STRIDE_W) * 16;
#pragma unroll
    for (int row = 0; row <= R; row += ROWS_OF_LOAD) {
        // An even number of rows of taps has no second row in its last load.
        const int down = ROWS_OF_LOAD == 2 && row < R ? DILATION_H * IN_COLUMNS : 0;
        const int across = CHUNKS_OF_LOAD == 2 ? PLANE : 0;
#pragma unroll
        for (int s = 0; s < S; ++s) {
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk += CHUNKS_OF_LOAD) {
                const int pixel = row * DILATION_H * IN_COLUMNS + s * DILATION_W + chunk * PLANE;
                unsigned x[A_REGISTERS];
                tile::load_matrices(window + (pixel + half * (down + across)) * 16, x);
                add_products(x, row, s, chunk, filters, sums[0]);
                add_products(x, row - 1, s, chunk, filters, sums[1]);
            }
        }
    }
}
