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
constexpr int TILE_H = 30;  // rows of sums of a tile, which is eight pixels wide
constexpr int CONSUMERS = 2;  // warpgroups that multiply, every second tile each
TEAM=1

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 240;  // output pixels of a tile
BEFORE_H=6 BEFORE_W=4 SKIPPED=0 TAPS_H=4 ROW_STEPS=2 CELLS_H=33 CELLS_W=12 IMAGE_BYTES=80 IMAGE_SHIFT=4
IMAGES=2 TILES_DOWN=4 TILES_ACROSS=14 CHANNEL_TILES=1 TILES=56 BLOCKS=2 WEIGHT_ROWS=64 SMEM_BYTES=143360

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

// Windows of the pool in a row of a tile: a lane has two neighbouring pixels, and the window that ends with
// them.
constexpr int WINDOWS_ACROSS = 4;
// Rows of windows that are staged: an even number of matrices, of two rows each.
constexpr int STAGED_DOWN = (WINDOWS_DOWN + 3) / 4 * 4;
[[maybe_unused]] constexpr int STAGED_PIXELS = STAGED_DOWN * WINDOWS_ACROSS;

// The tiles of a block, all of the same output channels. A consumer computes a strip of tiles from left to
// right, since a window may begin in the tile before. Where one consumer has a strip more than the other, the
// other's strip lies past the last image: TMA reads zeros there, and stores nothing.
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
    // The first pixel of a tile's sums.
    __device__ __forceinline__ int column() const { return along * 8; }
    __device__ __forceinline__ int row() const { return strip() % TILES_DOWN * (2 * WINDOWS_DOWN); }
    __device__ __forceinline__ int own_row() const { return row(); }
    __device__ __forceinline__ int image() const { return strip() / TILES_DOWN; }
    // The column of its first window in the output. A tile in front of the first makes only an edge.
    __device__ __forceinline__ int window_column() const { return along * WINDOWS_ACROSS + FIRST_COLUMN; }
    __device__ __forceinline__ bool is_before() const { return window_column() < 0; }
};
__device__ __forceinline__ int first_channel() { return tile::block_x() % CHANNEL_TILES * TILE_M; }

using ImageRing = Ring<IMAGES>;
using WindowRing = Ring<WINDOWS>;
static_assert(TILES == STRIPS * TILES_ACROSS * CHANNEL_TILES,
              "every image must have the same number of strips");
static_assert(WINDOW_H == 2 || WINDOW_H == 3, "the pool's windows must be two rows apart");
static_assert(WINDOW_W == 2 || WINDOW_W == 3, "the pool's windows must be the two pixels of a lane apart");
static_assert(CONSUMERS == 2, "each consumer must have every second slot of the ring");
static_assert(2 * (WINDOWS_DOWN - 1) + WINDOW_H <= TILE_H, "a tile must have all rows of its windows");

// The largest sums, of two channels, of the right one of a lane's two columns: the next window begins with
// it.
struct alignas(8) Edge { Sum channel[2]; };
// The edges of a warp, by the lanes that read them: those of this tile, and the first of the next tile.
struct Edges { Edge edge[2][WINDOWS_DOWN][8][WINDOWS_ACROSS]; };
// Blocks are persistent. A warpgroup of a block is the producer: TMA copies the images that tiles depend on,
// and teams of its warps make windows of them. Two more are consumers: each multiplies the windows of its
// tiles by the filters, finds the largest sum of each window of the pool, and makes outputs of these.
struct Shared {
    Staged staged[CONSUMERS][2];
    Window windows[WINDOWS];
    Image images[TEAMS][IMAGES];
    Edges edges[CONSUMERS][4];
    WindowRing ring;  // a team fills each of its slots
    ImageRing image_rings[TEAMS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

constexpr Sum LOWEST = -(1 << 30);
static_assert(REDUCTION < (1 << 15), "LOWEST must be below every sum");
// The largest sums of a lane's windows: one in each row of windows, of two channels.
using Largest = Sum[WINDOWS_DOWN][2];

// Makes sums outside of the convolution's outputs the lowest, so that no window chooses them: rows above, of
// which a tile has the pool's padding at most, and pixels below, left and right.
__device__ __forceinline__ void leave_out_padding(Sum (&sums)[ATOMS][4], const Tiles& tiles) {
    constexpr int USED_ROWS = 2 * (WINDOWS_DOWN - 1) + WINDOW_H;
    const int row = tiles.row() - BEFORE_ROWS, column = tiles.column() - BEFORE_COLUMNS;
    const int column_of_lane = column + tile::lane() % 4 * 2;
    if (row < 0) {
#pragma unroll
        for (int i = 0; i < 4 * BEFORE_ROWS; ++i) sums[i / 4][i % 4] = LOWEST;
    }
    if (row + USED_ROWS <= CONVOLUTION_H && column >= 0 && column + 8 <= CONVOLUTION_W) return;
#pragma unroll
    for (int atom = 0; atom < ATOMS; ++atom) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const bool column_exists = static_cast<unsigned>(column_of_lane + e) < CONVOLUTION_W;
            if (row + atom < CONVOLUTION_H && column_exists) continue;
            sums[atom][e] = sums[atom][2 + e] = LOWEST;
        }
    }
}

__device__ __forceinline__ Sum larger(Sum a, Sum b) { return a > b ? a : b; }

// The largest sum of a window's rows, in one of a lane's two columns and of one of its two channels.
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
    constexpr int NEXT_ROW = 8 * WINDOWS_ACROSS;
    if (tiles.along == 0 && window == 0) {
#pragma unroll
        for (int down = 0; down < WINDOWS_DOWN; ++down) from[down * NEXT_ROW] = {{LOWEST, LOWEST}};
    }
#pragma unroll
    for (int down = 0; down < WINDOWS_DOWN; ++down) {
        Edge edge;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            edge.channel[h] = largest_of_rows(sums, down, 2 * h + 1);
            largest[down][h] = larger(largest_of_rows(sums, down, 2 * h), edge.channel[h]);
        }
        to[down * NEXT_ROW] = edge;
    }
    tile::warp_barrier();
#pragma unroll
    for (int down = 0; down < WINDOWS_DOWN; ++down) {
        const Edge edge = from[down * NEXT_ROW];
#pragma unroll
        for (int h = 0; h < 2; ++h) largest[down][h] = larger(largest[down][h], edge.channel[h]);
    }
}

// Makes the outputs of a lane's windows in two rows, from `down` on.
__device__ __forceinline__ void finish_windows(
    const Arguments& args, const Channels& channels, const Largest& largest, int down,
    Finished (&finished)[4]) {
    const Sum sums[1][4] = {{largest[down][0], largest[down + 1][0], largest[down][1], largest[down + 1][1]}};
    finish_fragment(args, sums, Residuals(), channels.channel[0], Fragment(), finished);
}

// Matrices of a warp's outputs: eight windows, of two rows, by eight channels each.
constexpr int MATRICES = WINDOWS_DOWN / 2;

// The half of a consumer's staged tiles that its next tile goes to.
struct Stores { int half = 0; };

// Stages COUNT matrices of outputs, from `first` on. Those past the last repeat it, and are not stored.
template <int COUNT>
__device__ __forceinline__ void stage_matrices(
    const Arguments& args, Staged& staged, const Channels& channels, const Largest& largest, int first) {
    unsigned words[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        const int matrix = first + i < MATRICES ? first + i : MATRICES - 1;
        Finished finished[4];
        finish_windows(args, channels, largest, 2 * matrix, finished);
        words[i] = ProductRows::word(finished);
    }
    // A lane names a window: the rows of a matrix are two of each column of windows.
    const int lane = tile::lane() % (8 * COUNT);
    const int pixel = (2 * (first + lane / 8) + lane % 2) * WINDOWS_ACROSS + lane % 8 / 2;
    tile::store_matrices(staged.chunk(pixel, tile::warp() % 4), words);
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

// Makes outputs of a tile's largest sums, from where TMA stores those that lie in the image. The outputs of
// the tile before may still be on their way out of the other half.
__device__ __forceinline__ void write_largest(
    const Arguments& args, Shared& shared, int consumer, const Channels& channels, const Largest& largest,
    const Tiles& tiles, Stores& stores) {
    if (tiles.is_before()) return;
    Staged& staged = shared.staged[consumer][stores.half];
    stage_tile(args, staged, channels, largest);
    stores.half = 1 - stores.half;
    const bool is_elected = tile::thread() % 128 == 0;
    await_stores(is_elected, consumer);  // and all outputs of this tile are there
    if (is_elected) staged.store(args, tiles.window_column(), tiles.row() / 2, tiles.image());
}

// Each of two consumers, warpgroups, computes every second tile. They take no turns: there are always
// products to issue while outputs are made of sums. A consumer always has the same slots of the ring, and
// sees all their phases.
__device__ __forceinline__ void consume(const Arguments& args, Shared& shared, int consumer) {
    const Filters filters(args, shared);
    WindowRing::State at;
    Tiles tiles;
    for (int i = 0; i < consumer; ++i) {
        at.advance();
        tiles.advance();
    }
    // Channel parameters may be written by the launch before this one.
    tile::wait_on_dependency();
    Channels channels(args);
    Products products;
    Stores stores;
    while (tiles.any()) {
        Sums sums;
        multiply_tile(products, filters, shared, at, sums);
        commit_products(products);
        wait_for_products<0>(products);
        if (tile::lane() == 0) shared.ring.release(at);
        await(sums[0]);
        Largest largest;
        find_largest(shared, consumer, sums[0], tiles, largest);
        write_largest(args, shared, consumer, channels, largest, tiles, stores);
        for (int i = 0; i < CONSUMERS; ++i) at.advance();
        tiles.advance_consumer();
    }
    // Shared memory is another block's when this one has ended: the stores must have read it.
    if (tile::thread() % 128 == 0) tile::wait_for_store_reads<0>();
}

// One thread initialises all mbarriers, before any thread waits for one.
__device__ __forceinline__ void open(Shared& shared) {
    for (ImageRing& ring : shared.image_rings) ring.open(1);
    shared.ring.open(4);  // the warps of a consumer
}

@@ 259a56a6 in whole/halo-body-sm_90a.cu: extern "C" __global__ void __launch_bounds__(THREADS, 1)
@@ 2+1
conv2d_stem_pool(const __grid_constant__ Arguments args) {
@@ 6+1
