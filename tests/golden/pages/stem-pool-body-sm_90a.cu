// conv2d_pool:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu:window=3,3:window_stride=2,2:window_pad=1,1,1,1
//
//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
//   z   = the largest y of each window of 3 x 3
//
// target    sm_90a
// config    stem_pool windows=14 team=1
// launch    conv2d_repack_weights<<<32x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem_pool<<<2x1x1, 384, 143360 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=3 C_GROUP=3 OUT_H=113 OUT_W=112 K=64 K_GROUP=64 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=5 PAD_LEFT=3 PADDED=true PIXELS=12656 REDUCTION=147 X_SIGNED=true W_SIGNED=true

@@ // The pool. The problem has its padding as well, as outputs of the convolution.
constexpr int WINDOW_H = 3;
constexpr int WINDOW_W = 3;
BEFORE_ROWS=1 BEFORE_COLUMNS=0 CONVOLUTION_H=112 CONVOLUTION_W=112 FIRST_COLUMN=0 STRIPS=4

@@ // The config.
WINDOWS_DOWN=14
constexpr int TILE_H = 30;  // rows of sums of a tile, which are eight pixels wide
constexpr int CONSUMERS = 2;  // warpgroups that multiply, every second tile each
TEAM=1

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 240;  // output pixels of a tile
BEFORE_H=6 BEFORE_W=4 SKIPPED=0 TAPS_H=4 ROW_STEPS=2 CELLS_H=33 CELLS_W=12 IMAGE_BYTES=80 IMAGE_SHIFT=4
IMAGES=2 TILES_DOWN=4 TILES_ACROSS=14 CHANNEL_TILES=1 TILES=56 BLOCKS=2 WEIGHT_ROWS=64 SMEM_BYTES=143360

@@ b5cc1b96 in pages/stem-wgmma-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 20+0
static_assert(TILES == STRIPS * TILES_ACROSS * CHANNEL_TILES, "every image has as many strips");
static_assert(WINDOW_H == 2 || WINDOW_H == 3, "windows are two rows from each other");
static_assert(WINDOW_W == 2 || WINDOW_W == 3, "a lane has the two pixels that windows are from each other");
static_assert(CONSUMERS == 2, "each has every second slot of the ring");
static_assert(2 * (WINDOWS_DOWN - 1) + WINDOW_H <= TILE_H, "a tile has the rows that its windows look at");

// wgmma.mma_async.sync.aligned.m64n240k32.s32.s8.s8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Four warps execute it together; its sums are awaited later. The
// filters are in registers; the pixels are in shared memory, as contiguous matrices of eight rows x 16 bytes,
// without a swizzle.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
constexpr int FILTER_WORDS = 128;  // per warp and step

@@ 084af698 in whole/halo-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 4+1
    Products&, const Filter& a, const Operand& b, Sum (&d)[ATOMS][4], bool adds) {
@@ 8+2
        "setp.ne.b32 adds, %125, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n240k32.s32.s8.s8 {"
@@ 37+3
        "%108, %109, %110, %111, "
        "%112, %113, %114, %115, "
        "%116, %117, %118, %119}, "
        "{%120, %121, %122, %123}, "
        "%124, adds;\n"
@@ 68+2
          SUMS_OF_ATOM(27),
          SUMS_OF_ATOM(28),
          SUMS_OF_ATOM(29)
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.descriptor),
          "r"(static_cast<int>(adds)));

@@ 3ed38156 in pages/stem-wgmma-body-sm_90a.cu: // What a tile looks at, as it lies in the image: the bytes of a row for each of its rows. It begins with the
@@ 7+1
// Windows of a tile, across: a lane has two neighbouring pixels of a row, and the window that ends with them.
constexpr int WINDOWS_ACROSS = 4;
// Outputs of a tile, and room for an even number of matrices of two rows.
constexpr int STAGED_DOWN = (WINDOWS_DOWN + 3) / 4 * 4;
struct alignas(1024) Staged { unsigned char pixel[STAGED_DOWN * WINDOWS_ACROSS][TILE_M]; };
// Largest sums of the right one of a lane's two columns, of two channels: the next window begins with it.
struct alignas(8) Edge { Sum channel[2]; };
// Those of a warp, by the lanes that read them: this tile's, and the first of the next one's.
struct Edges { Edge edge[2][WINDOWS_DOWN][8][WINDOWS_ACROSS]; };

@@ 5ba6d0d0 in pages/stem-wgmma-body-sm_90a.cu: struct Shared {
@@ 2+1
    Staged staged[CONSUMERS][2];
@@ 5+0
    Edges edges[CONSUMERS][4];
@@ 7+1

// The tiles of a block, all of the same channels. Each consumer has strips of its own, which it goes along
// from left to right: a window begins in the tile before. Where one consumer has a strip more than another,
// the other's is of an image past the last: zeros come, and nothing is stored.
struct Tiles {
    int consumer = 0, along = 0, round = 0;

    __device__ __forceinline__ void advance_consumer() {
        if (++along < TILES_ACROSS) return;
        along = 0;
        ++round;
    }
    __device__ __forceinline__ void advance() {
        if (++consumer < CONSUMERS) return;
        consumer = 0;
        advance_consumer();
    }
    __device__ __forceinline__ int first_strip() const {
        constexpr int BLOCKS_OF_CHANNELS = BLOCKS / CHANNEL_TILES;
        return (round * BLOCKS_OF_CHANNELS + tile::block_x() / CHANNEL_TILES) * CONSUMERS;
    }
    __device__ __forceinline__ bool any() const { return first_strip() < STRIPS; }
    __device__ __forceinline__ int strip() const { return first_strip() + consumer; }
    // Where a tile's sums begin.
    __device__ __forceinline__ int column() const { return along * 8; }
    __device__ __forceinline__ int row() const { return strip() % TILES_DOWN * (2 * WINDOWS_DOWN); }
    __device__ __forceinline__ int image() const { return strip() / TILES_DOWN; }
    // Where its first window lies in the output; a tile before the first makes an edge alone.
    __device__ __forceinline__ int window_column() const { return along * WINDOWS_ACROSS + FIRST_COLUMN; }
    __device__ __forceinline__ bool is_before() const { return window_column() < 0; }
};
__device__ __forceinline__ int first_channel() { return tile::block_x() % CHANNEL_TILES * TILE_M; }

constexpr Sum LOWEST = -(1 << 30);
static_assert(REDUCTION < (1 << 15), "LOWEST must be below every sum");
// The largest sums of a lane's windows: of each row of windows those of one, of two channels.
using Largest = Sum[WINDOWS_DOWN][2];

// What lies outside of the convolution's outputs is in no window's way: rows above them, of which a tile has
// the pool's padding at most, and what a tile has below them, left and right.
__device__ __forceinline__ void leave_out_padding(Sum (&sums)[ATOMS][4], const Tiles& tiles) {
    constexpr int LOOKED_AT = 2 * (WINDOWS_DOWN - 1) + WINDOW_H;
    const int row = tiles.row() - BEFORE_ROWS, column = tiles.column() - BEFORE_COLUMNS;
    if (row < 0) {
#pragma unroll
        for (int i = 0; i < 4 * BEFORE_ROWS; ++i) sums[i / 4][i % 4] = LOWEST;
    }
    if (row + LOOKED_AT <= CONVOLUTION_H && column >= 0 && column + 8 <= CONVOLUTION_W) return;
#pragma unroll
    for (int atom = 0; atom < ATOMS; ++atom) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const bool column_exists = static_cast<unsigned>(column + column_of_lane() + e) < CONVOLUTION_W;
            if (row + atom < CONVOLUTION_H && column_exists) continue;
            sums[atom][e] = sums[atom][2 + e] = LOWEST;
        }
    }
}

__device__ __forceinline__ Sum larger(Sum a, Sum b) { return a > b ? a : b; }

// The largest of a window's rows, in one of a lane's two columns and of one of its two channels.
__device__ __forceinline__ Sum largest_of_rows(const Sum (&sums)[ATOMS][4], int down, int column) {
    const Sum two = larger(sums[2 * down][column], sums[2 * down + 1][column]);
    if constexpr (WINDOW_H == 2) return two;
    else return larger(two, sums[2 * down + 2][column]);
}

__device__ __forceinline__ void find_largest(
    [[maybe_unused]] Shared& shared, [[maybe_unused]] int consumer, Sum (&sums)[ATOMS][4], const Tiles& tiles,
    Largest& largest) {
    leave_out_padding(sums, tiles);
    Edges& edges = shared.edges[consumer][tile::warp() % 4];
    const int half = (tiles.round * TILES_ACROSS + tiles.along) % 2;
    const int window = tile::lane() % 4, channels = tile::lane() / 4;
    const bool last = window == WINDOWS_ACROSS - 1;
    Edge* const to = &edges.edge[last ? 1 - half : half][0][channels][last ? 0 : window + 1];
    Edge* const from = &edges.edge[half][0][channels][window];
    constexpr int OF_ROW = 8 * WINDOWS_ACROSS;
    if (tiles.along == 0 && window == 0) {
#pragma unroll
        for (int down = 0; down < WINDOWS_DOWN; ++down) from[down * OF_ROW] = {{LOWEST, LOWEST}};
    }
#pragma unroll
    for (int down = 0; down < WINDOWS_DOWN; ++down) {
        Edge edge;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            edge.channel[h] = largest_of_rows(sums, down, 2 * h + 1);
            largest[down][h] = larger(largest_of_rows(sums, down, 2 * h), edge.channel[h]);
        }
        to[down * OF_ROW] = edge;
    }
    tile::warp_barrier();
#pragma unroll
    for (int down = 0; down < WINDOWS_DOWN; ++down) {
        const Edge edge = from[down * OF_ROW];
#pragma unroll
        for (int h = 0; h < 2; ++h) largest[down][h] = larger(largest[down][h], edge.channel[h]);
    }
}

// The outputs of a lane's windows in two rows, from `down` on.
__device__ __forceinline__ void finish_windows(
    const Arguments& args, const Channels& channels, const Largest& largest, int down,
    Finished (&finished)[4]) {
    const Sum sums[4] = {largest[down][0], largest[down + 1][0], largest[down][1], largest[down + 1][1]};
    finish_row(args, sums, channels.channel[0], 0, 0, 0, finished);
}

// Each has eight windows, of two rows, by eight channels of a warp.
constexpr int MATRICES = WINDOWS_DOWN / 2;

// Which half a consumer stages its next tile in.
struct Stores { int half = 0; };

// COUNT matrices of outputs from `first` on. What is past the last of them is any, and nobody stores it.
template <int COUNT>
__device__ __forceinline__ void stage_matrices(
    const Arguments& args, Staged& staged, const Channels& channels, const Largest& largest, int first) {
    unsigned words[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int matrix = first + i < MATRICES ? first + i : MATRICES - 1;
        Finished finished[4];
        finish_windows(args, channels, largest, 2 * matrix, finished);
        alignas(4) Output outputs[4];
        write(outputs, finished);
        words[i] = reinterpret_cast<const tile::Words<1>*>(outputs)->word[0];
    }
    // A lane names a window: the rows of a matrix are two of each column of windows.
    const int lane = tile::lane() % (8 * COUNT);
    const int pixel = (2 * (first + lane / 8) + lane % 2) * WINDOWS_ACROSS + lane % 8 / 2;
    tile::store_matrices(chunk_of(staged, pixel, tile::warp() % 4), words);
}

__device__ __forceinline__ void stage_tile(
    const Arguments& args, Staged& staged, const Channels& channels, const Largest& largest) {
    constexpr int WHOLE = MATRICES / 4 * 4;
#pragma unroll
    for (int first = 0; first < WHOLE; first += 4) stage_matrices<4>(args, staged, channels, largest, first);
    if constexpr (MATRICES % 4 == 3) {
        stage_matrices<4>(args, staged, channels, largest, WHOLE);
    } else if constexpr (MATRICES % 4 > 0) {
        stage_matrices<2>(args, staged, channels, largest, WHOLE);
    }
    tile::fence_proxy_async();
}

// A tile's largest sums become outputs, and the copy engine stores those that lie in the image. Those of the
// tile before may still be on their way out of the other half.
__device__ __forceinline__ void write_largest(
    const Arguments& args, Shared& shared, int consumer, const Channels& channels, const Largest& largest,
    const Tiles& tiles, Stores& stores) {
    if (tiles.is_before()) return;
    Staged& staged = shared.staged[consumer][stores.half];
    stage_tile(args, staged, channels, largest);
    stores.half = 1 - stores.half;
    const bool signals = tile::thread() % 128 == 0;
    if (signals) tile::wait_for_store_reads<0>();
    tile::warpgroup_barrier(consumer);  // all of them are there, and those before have left
    if (signals) {
        const int column = tiles.window_column(), row = tiles.row() / 2;
        tile::store_tile(args.output_map, &staged, first_channel(), column, row, tiles.image());
        tile::commit_stores();
    }
}

// Two warpgroups make every second tile each. They wait for no turn: there are always products to issue while
// outputs are made of sums. A slot of the ring is always the same one's, which sees each of its phases.
__device__ __forceinline__ void consume(const Arguments& args, Shared& shared, int consumer) {
    const Filters filters(args);
    WindowRing::State at;
    Tiles tiles;
    for (int i = 0; i < consumer; ++i) {
        at.advance();
        tiles.advance();
    }
    // Parameters of channels may be what the launch before has written.
    tile::wait_on_dependency();
    Channels channels(args);
    Products products;
    Stores stores;
    while (tiles.any()) {
        Sum sums[ATOMS][4];
        shared.ring.wait(at);
        const Operand window(&shared.windows[at.slot].cell[0][SKIPPED], 16, 16 * CELLS_W);
        begin_products();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int cell = step / ROW_STEPS * CELLS_W + step % ROW_STEPS * 2;
            multiply(products, filters.step[step], window.behind(16 * cell), sums, step > 0);
        }
        commit_products(products);
        wait_for_products<0>(products);
        if (tile::lane() == 0) shared.ring.release(at);
        await(sums);
        Largest largest;
        find_largest(shared, consumer, sums, tiles, largest);
        write_largest(args, shared, consumer, channels, largest, tiles, stores);
        for (int i = 0; i < CONSUMERS; ++i) at.advance();
        tiles.advance_consumer();
    }
    // Shared memory is another block's when this one has ended.
    if (tile::thread() % 128 == 0) tile::wait_for_store_reads<0>();
}

// One thread, before anybody waits.
__device__ __forceinline__ void open(Shared& shared) {
    for (ImageRing& ring : shared.image_rings) ring.open(1);
    shared.ring.open(4);  // the warps of a consumer
}

@@ 4d72ca77 in whole/halo-body-sm_90a.cu: extern "C" __global__ void __launch_bounds__(THREADS, 1)
@@ 2+1
conv2d_stem_pool(const __grid_constant__ Arguments args) {
@@ 13+1
        produce(args, shared, tile::warp() % 4);
