// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    stem tile_h=16 tile_w=16 atoms=4 slabs=2 warps=4 batch=1 blocks_per_sm=4
// launch    conv2d_repack_weights<<<28x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem<<<49x1x1, 128, 13024 B>>> when: call

@@ // The config.
constexpr int TILE_H = 16;  // output rows per tile
TILE_W=16
constexpr int ATOMS = 4;  // groups of 8 output channels per warp
constexpr int SLABS = 2;  // slabs of these channels per block
WARPS=4
constexpr int BATCH = 1;  // groups of 16 pixels that a warp computes together
BLOCKS_PER_SM=4

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS_OF_WORD=1 ROW_WORDS=8
constexpr int STEPS = 7;  // steps of eight words of a filter
SLAB_K=32 ALL_SLABS=2 TILES_H=7 TILES_W=7 SLAB_TILES=1 TILES=49 GRID_BLOCKS=49 SMEM_BYTES=13024

static_assert(C <= 4 && C_GROUP == C && K_GROUP == K && REDUCTION == R * S * C,
              "C must be at most 4, in one group");
static_assert(TAPS_OF_WORD == (C == 1 ? 4 : C == 2 ? 2 : 1),
              "TAPS_OF_WORD must fill a word with neighbouring taps");
static_assert(ROW_WORDS * TAPS_OF_WORD >= S && STEPS * 8 >= R * ROW_WORDS,
              "ROW_WORDS and STEPS must have all taps");
static_assert(PIXELS % (OUT_H * OUT_W) == 0 && TILES_H * TILE_H >= OUT_H && TILES_W * TILE_W >= OUT_W,
              "TILES_H and TILES_W must cover every output of an image");
static_assert(ATOMS * 8 == SLAB_K && WARPS % SLABS == 0,
              "SLAB_K must be ATOMS * 8");
static_assert(GRID_BLOCKS % SLAB_TILES == 0, "GRID_BLOCKS must be a multiple of SLAB_TILES");
static_assert(PADDED || PAD_TOP + PAD_LEFT == 0, "without padding, windows must lie in the image");

// mma.sync: A is 16 pixels, B is 8 output channels, each by eight words of a filter.
[[maybe_unused]] constexpr bool A_SIGNED = X_SIGNED, B_SIGNED = W_SIGNED;
constexpr int A_REGISTERS = 4, B_REGISTERS = 2, D_REGISTERS = 4;

// The input of a block's tile: one word per pixel, with the pixel's channels and, if there are fewer than
// three, those of the next taps too. A filter row is ROW_WORDS words.
constexpr int CHANNELS_OF_WORD = 4 / TAPS_OF_WORD;
constexpr int IN_ROWS = (TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int IN_COLUMNS = (TILE_W - 1) * STRIDE_W + (ROW_WORDS - 1) * TAPS_OF_WORD * DILATION_W + 1;
// Rows begin at a multiple of four pixels of the image, so that whole words can be read.
constexpr int QUADS = (IN_COLUMNS + 3 + 3) / 4, PITCH = QUADS * 4;
static_assert(IN_W % 4 == 0 && (C > 2 || DILATION_W == 1), "IN_W must be a multiple of 4");
// One tile is multiplied while the next one loads.
struct Input { alignas(16) unsigned word[IN_ROWS][PITCH]; };
struct Shared { Input x[2]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// The bytes of four pixels and of those that follow. Either all four are in the image or none is.
struct Vector { unsigned word[C < 3 ? C + 1 : C]; };
constexpr int VECTORS = IN_ROWS * QUADS, VECTORS_OF_THREAD = (VECTORS + THREADS - 1) / THREADS;

// Returns the distance from the first column in shared memory to the tile's first window.
__device__ __forceinline__ int shift(const Tile& tile) { return (tile.column * STRIDE_W - PAD_LEFT) & 3; }

__device__ __forceinline__ Vector load_vector(const Arguments& args, const Tile& tile, int i) {
    const int row = tile.row * STRIDE_H - PAD_TOP + i / QUADS;
    const int column = ((tile.column * STRIDE_W - PAD_LEFT) & ~3) + i % QUADS * 4;
    const X* const pixels = args.x + ((tile.n * IN_H + row) * IN_W + column) * C;
    Vector vector;
#pragma unroll
    for (int j = 0; j < static_cast<int>(sizeof(vector) / 4); ++j) {
        vector.word[j] = padding_word(args);
        if (static_cast<unsigned>(row) < IN_H && static_cast<unsigned>(column + j / C * 4) < IN_W) {
            vector.word[j] = tile::load_words<1>(pixels + 4 * j).word[0];
        }
    }
    return vector;
}

// Unpacks four pixels to one word each. If the image has fewer than four channels, the other bytes are
// arbitrary: they are multiplied by zeros.
__device__ __forceinline__ tile::Words<4> unpack_pixels(const Vector& vector) {
    const unsigned* const word = vector.word;
    if constexpr (C == 1) {
        return {{word[0], tile::pick<1, 2, 3, 4>(word[0], word[1]), tile::pick<2, 3, 4, 5>(word[0], word[1]),
                 tile::pick<3, 4, 5, 6>(word[0], word[1])}};
    } else if constexpr (C == 2) {
        return {{word[0], tile::pick<2, 3, 4, 5>(word[0], word[1]), word[1],
                 tile::pick<2, 3, 4, 5>(word[1], word[2])}};
    } else if constexpr (C == 3) {
        return {{word[0], tile::pick<3, 4, 5, 6>(word[0], word[1]), tile::pick<2, 3, 4, 5>(word[1], word[2]),
                 word[2] >> 8}};
    } else {
        return {{word[0], word[1], word[2], word[3]}};
    }
}

__device__ __forceinline__ void put_vector(Input& input, int i, const Vector& vector) {
    *reinterpret_cast<tile::Words<4>*>(&input.word[i / QUADS][i % QUADS * 4]) = unpack_pixels(vector);
}

// The part of a tile's input that a thread moves to shared memory.
struct RegisterTile { Vector vector[VECTORS_OF_THREAD]; };

__device__ __forceinline__ RegisterTile load(const Arguments& args, const Tile& tile) {
    RegisterTile tile_registers;
#pragma unroll
    for (int i = 0; i < VECTORS_OF_THREAD; ++i) {
        const int index = i * THREADS + tile::thread();
        if (index < VECTORS) tile_registers.vector[i] = load_vector(args, tile, index);
    }
    return tile_registers;
}

__device__ __forceinline__ void put(Input& input, const RegisterTile& tile_registers) {
#pragma unroll
    for (int i = 0; i < VECTORS_OF_THREAD; ++i) {
        const int index = i * THREADS + tile::thread();
        if (index < VECTORS) put_vector(input, index, tile_registers.vector[i]);
    }
}

// Element `i` of register `half` of B in a lane: the index of the weight in its output channel.
struct Element { int at; bool exists; };
__device__ __forceinline__ Element element_of(int, int step, int half, int lane, int i) {
    const int unit = step * 8 + half * 4 + lane % 4;
    const int r = unit / ROW_WORDS, s = unit % ROW_WORDS * TAPS_OF_WORD + i / CHANNELS_OF_WORD;
    const int c = i % CHANNELS_OF_WORD;
    return {(r * S + s) * C + c, r < R && s < S && c < C};
}

// Returns the offset of a lane's word of half a step from the first word of the window. Words past the end of
// the filter are multiplied by zeros.
__device__ __forceinline__ int offset_of(int step, int half) {
    const unsigned unit = step * 8 + half * 4 + static_cast<unsigned>(tile::lane()) % 4;
    const int row = unit / ROW_WORDS, word = unit % ROW_WORDS;
    return (row < R ? row : 0) * DILATION_H * PITCH + word * TAPS_OF_WORD * DILATION_W;
}

// Computes all products of the groups of 16 pixels that a warp processes together.
__device__ __forceinline__ void multiply(
    const Input& input, const Position (&position)[BATCH], int shift, const Filters& filters,
    Sums (&sums)[BATCH]) {
    constexpr int ON = ROWS_ON * STRIDE_H * PITCH + COLUMNS_ON * STRIDE_W;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int n = 0; n < BATCH; ++n) {
            const int row = position[n].row * STRIDE_H, column = position[n].column * STRIDE_W;
            const unsigned* const window = &input.word[row][column + shift];
            unsigned x[A_REGISTERS];
#pragma unroll
            for (int i = 0; i < A_REGISTERS; ++i) x[i] = window[offset_of(step, i / 2) + i % 2 * ON];
            add_products(x, step, filters, sums[n]);
        }
    }
}

// Neighbouring channels that a lane writes at once: either all of them exist or none does.
constexpr int STORE_K = K % LANE_K == 0 ? LANE_K : (K | LANE_K) & -(K | LANE_K);

// Finishes the outputs and writes them from registers to device memory: LANE_K neighbouring channels of two
// pixels per lane.
__device__ __forceinline__ void finish_pixels(
    const Arguments& args, const Tile& tile, const Position& position, int k, const Sums& sums,
    const Channel (&channels)[LANE_K]) {
    const int first_row = tile.row + position.row, first_column = tile.column + position.column;
    const int first = ((tile.n * OUT_H + first_row) * OUT_W + first_column) * K + k;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (k >= K || first_row + i * ROWS_ON >= OUT_H || first_column + i * COLUMNS_ON >= OUT_W) continue;
        const int index = first + i * (ROWS_ON * OUT_W + COLUMNS_ON) * K;
        Finished finished[LANE_K];
#pragma unroll
        for (int n = 0; n < LANE_K; ++n) {
            const int d = i * 2 + n % 2;
            Inputs inputs = {sums.product[n / 2][d]};
            finished[n] = finish(inputs, channels[n]);
        }
#pragma unroll
        for (int n = 0; n < LANE_K; n += STORE_K) {
            if (k + n >= K) continue;
            write(args.y + index + n, *reinterpret_cast<const Finished(*)[STORE_K]>(&finished[n]));
        }
    }
}

// Persistent blocks, as many as are resident at a time, each process several tiles. The input of a tile loads
// into shared memory while the previous tile is multiplied, and serves all taps of all output channels. The
// filters stay in registers.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) conv2d_stem(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    int index = tile::block_x();
    Tile tile(index);
    put(shared.x[0], load(args, tile));
    const int slab = tile.slab + tile::warp() % SLABS;
    const Filters filters = load_filters(args, slab < ALL_SLABS ? slab : ALL_SLABS - 1);
    const int k = slab * SLAB_K + tile::lane() % 4 * LANE_K;
    Channel channels[LANE_K];
#pragma unroll
    for (int n = 0; n < LANE_K; ++n) channels[n] = load_channel(args, k + n < K ? k + n : K - 1);
    tile::barrier();
    for (int turn = 0;; turn ^= 1) {
        index += GRID_BLOCKS;
        const bool more = index < TILES;
        const Tile next(more ? index : 0);
        RegisterTile tile_registers;
        if (more) tile_registers = load(args, next);
#pragma unroll 1
        for (int first = tile::warp() / SLABS * BATCH; first < SIXTEENS; first += WARPS / SLABS * BATCH) {
            Position position[BATCH];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) position[i] = position_of(first + i);
            Sums sums[BATCH] = {};
            multiply(shared.x[turn], position, shift(tile), filters, sums);
#pragma unroll
            for (int i = 0; i < BATCH; ++i) finish_pixels(args, tile, position[i], k, sums[i], channels);
        }
        if (!more) return;
        put(shared.x[turn ^ 1], tile_registers);
        tile::barrier();  // the next tile is stored, and all threads have read this one
        tile = next;
    }
}
