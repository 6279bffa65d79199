// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    stem_wgmma rows=16 consumers=3 team=1
// launch    conv2d_repack_weights<<<32x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem_wgmma<<<98x1x1, 512, 64512 B>>> when: call

@@ // The config.
TILE_H=16 CONSUMERS=3 TEAM=1

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=56 CONSUMER_REGISTERS=152
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 128;  // output pixels of a tile
BEFORE_H=4 BEFORE_W=4 SKIPPED=0 TAPS_H=4 ROW_STEPS=2 CELLS_H=19 CELLS_W=12 IMAGE_BYTES=80 IMAGE_SHIFT=4
IMAGES=2 TILES_DOWN=7 TILES_ACROSS=14 CHANNEL_TILES=1 TILES=98 BLOCKS=98 WEIGHT_ROWS=64 SMEM_BYTES=64512

static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer must be one more warpgroup");
static_assert((C == 3 || C == 4) && C_GROUP == C && K_GROUP == K,
              "there must be three or four channels, in one group");
static_assert(STRIDE_H == 2 && STRIDE_W == 2 && DILATION_H == 1 && DILATION_W == 1,
              "neighbouring outputs must read neighbouring cells, of two by two pixels");
// Cells are two by two pixels. Those of two neighbouring pixels are checked beside their window.
static_assert(IN_W % 4 == 0 && IN_W * C % 16 == 0, "rows of the image must be whole words and whole chunks");
static_assert(TILE_M == 64 && TILE_N == 8 * TILE_H && TILE_H % 2 == 0, "a tile must be eight pixels wide");
static_assert(BEFORE_H % 2 == 0 && BEFORE_W % 4 == 0 && BEFORE_H >= PAD_TOP && BEFORE_W >= PAD_LEFT,
              "the padding must be whole cells, in pairs along a row");
static_assert(2 * (SKIPPED + 2 * ROW_STEPS) >= BEFORE_W - PAD_LEFT + S,
              "ROW_STEPS must have all taps of a filter row");
static_assert(ROW_STEPS * 2 + SKIPPED + 7 <= CELLS_W, "CELLS_W must cover the windows of a tile");
static_assert(2 * TAPS_H >= BEFORE_H - PAD_TOP + R && CELLS_H == TILE_H + TAPS_H - 1,
              "TAPS_H must cover a filter, and CELLS_H the windows of a tile");
static_assert(PADDED || ((OUT_H - 1) * 2 + R <= IN_H && (OUT_W - 1) * 2 + S <= IN_W),
              "without padding, windows must lie in the image");
static_assert(TILES == PIXELS / (OUT_H * OUT_W) * TILES_DOWN * TILES_ACROSS * CHANNEL_TILES,
              "every image must have the same number of tiles");
static_assert(BLOCKS % CHANNEL_TILES == 0, "a block must keep its output channels");
static_assert(TEAM == 1 || TEAM == 4, "a warp or the whole producer must make the cells of a tile");

// Loads the box at these coordinates, innermost first: one thread. The innermost coordinate must be a
// multiple of 16 bytes. `mbarrier` must expect all bytes of the box, including the zeros outside the array.
__device__ __forceinline__ void load_tile_3d(
    const TensorMap& map, void* to, Mbarrier& mbarrier,
    int c0, int c1, int c2) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&mbarrier)),
        "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 8+3
    int* fragments;  // the filters as the lanes of a consumer hold them
    tile::TensorMap image_map;  // of x

// An atom is eight neighbouring pixels of a row of a tile, and a step is an instruction.
constexpr int ATOMS = TILE_N / 8, STEPS = TAPS_H * ROW_STEPS;
// Windows of cells that are made or multiplied, and teams of the producer's warps that make them.
constexpr int WINDOWS = 4, TEAMS = 4 / TEAM;
[[maybe_unused]] constexpr int SPLIT = 1, OWN_ROWS = TILE_H;  // a block computes its tiles alone
[[maybe_unused]] constexpr int PRODUCTS = STEPS;  // instructions per tile

// wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Four warps execute it together; its sums are awaited later. The
// filters are in registers; the pixels are in shared memory, as contiguous matrices of eight rows x 16 bytes,
// without a swizzle.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
constexpr int FILTER_WORDS = 128;  // per warp and step

// A lane's words of one step's filters: two rows by the first and the second 16 bytes.
struct Filter {
    unsigned word[4];

    Filter() = default;
    __device__ __forceinline__ explicit Filter(const int* of_warp) {
        const tile::Words<4> words = tile::load_words<4>(of_warp + 4 * tile::lane());
#pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = words.word[i];
    }
};

@@ 257b8e8d in whole/fused-small-image-sm_90a.cu:     // `to_chunk` is the byte distance to the next 16 bytes of the reduction, `to_eight` that to the next
@@ 3+1
    __device__ __forceinline__ Operand(const void* first, int to_chunk, int to_eight)
@@ 8+2
    __device__ __forceinline__ Operand advance_bytes(int bytes) const {
        return Operand(descriptor + static_cast<unsigned>(bytes / 16));

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 4+1
    Products&, const Filter& a, const Operand& b, Sum (&d)[ATOMS][4], bool adds) {
@@ 8+2
        "setp.ne.b32 adds, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
@@ 25+11
        "%60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, "
        "%68, adds;\n"
@@ 52+10
          SUMS_OF_ATOM(15)
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.descriptor),
          "r"(static_cast<int>(adds)));

// The rows of the image that a tile depends on, as they lie there: IMAGE_BYTES each, from the chunk on that
// has the first of its cells.
struct alignas(128) Image { unsigned char row[2 * CELLS_H][IMAGE_BYTES]; };
// The same as cells: 2 x 2 pixels of a word each, the 16 bytes of a tap. Outputs lie two pixels apart, so
// that neighbouring outputs read neighbouring cells.
struct alignas(128) Window { tile::Words<4> cell[CELLS_H][CELLS_W]; };

using ImageRing = Ring<IMAGES>;
using WindowRing = Ring<WINDOWS>;
// A tile has one window, whose slot of the ring one thread of its consumer releases.
constexpr int WINDOWS_PER_TILE = 1;
constexpr int RELEASES = 1;

// Blocks are persistent. A warpgroup of a block is the producer: TMA copies the images that tiles depend on,
// and teams of its warps make windows of them. The others are consumers: in turn, each multiplies the window
// of a tile by the filters, and makes outputs of the sums while the next one multiplies.
struct Shared {
    Staged staged[CONSUMERS];
    Window windows[WINDOWS];
    Image images[TEAMS][IMAGES];
    WindowRing ring;  // a team fills each of its slots
    ImageRing image_rings[TEAMS];
    tile::Mbarrier issued[CONSUMERS];  // completes when a consumer has issued the products of a tile
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Four neighbouring pixels of a row. All four are in the image, or none is.
struct Vector { unsigned word[C]; };

// A lane of the producer makes two cells at a time, from four pixels of each of two rows.
constexpr int PAIRS_OF_ROW = CELLS_W / 2, PAIRS = CELLS_H * PAIRS_OF_ROW;

__device__ __forceinline__ void make_cells(
    [[maybe_unused]] const Arguments& args, const Image& image, [[maybe_unused]] const Tiles& tiles,
    Window& window, int pair) {
    const int cell_row = pair / PAIRS_OF_ROW, cell_column = pair % PAIRS_OF_ROW * 2;
    Vector vector[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = cell_row * 2 + h, column = cell_column * 2;
        const unsigned char* const from = &image.row[row][IMAGE_SHIFT + column * C];
#pragma unroll
        for (int j = 0; j < C; ++j) {
            const unsigned word = reinterpret_cast<const unsigned*>(from)[j];
            vector[h].word[j] = word;
        }
    }
    const tile::Words<4> upper = unpack_pixels(vector[0]), lower = unpack_pixels(vector[1]);
    tile::Words<4>* const to = &window.cell[cell_row][cell_column];
    to[0] = {{upper.word[0], upper.word[1], lower.word[0], lower.word[1]}};
    to[1] = {{upper.word[2], upper.word[3], lower.word[2], lower.word[3]}};
}

// A barrier of the threads of a team.
__device__ __forceinline__ void team_barrier() {
    if constexpr (TEAM == 1) {
        tile::warp_barrier();
    } else {
        tile::warpgroup_barrier(CONSUMERS);
    }
}

// Each team makes the cells of every TEAMS-th tile, and has slots of its own: TMA copies the images of its
// next tiles meanwhile.
__device__ __forceinline__ void produce(const Arguments& args, Shared& shared) {
    const int team = tile::warp() % 4 / TEAM, member = tile::thread() % (WARP_SIZE * TEAM);
    const bool is_elected = member == 0;
    Image (&images)[IMAGES] = shared.images[team];
    ImageRing& image_ring = shared.image_rings[team];
    ImageRing::State asked, at;
    Tiles next, tiles;
    for (int i = 0; i < team; ++i) {
        next.advance();
        tiles.advance();
    }
    const auto advance = [](Tiles& tiles_of_team) {
        for (int i = 0; i < TEAMS; ++i) tiles_of_team.advance();
    };
    // Asks TMA for the image of the next tile. Bytes outside of the image are zeros.
    const auto ask_for_next = [&] {
        if (!next.any()) return;
        tile::load_tile_3d(args.image_map, &images[asked.slot], image_ring.acquire(asked, sizeof Image::row),
                        (next.column() * 2 - BEFORE_W) * C - IMAGE_SHIFT, next.row() * 2 - BEFORE_H,
                        next.image());
        asked.advance();
        advance(next);
    };
    tile::wait_on_dependency();
    if (is_elected) {
        for (int i = 0; i < IMAGES; ++i) ask_for_next();
    }
    for (int i = team; tiles.any(); i += TEAMS) {
        const int slot = i % WINDOWS, phase = i / WINDOWS;
        image_ring.wait(at);
        if (phase > 0) shared.ring.empty[slot].wait_for_phase(phase - 1);
#pragma unroll 2
        for (int pair = member; pair < PAIRS; pair += WARP_SIZE * TEAM) {
            make_cells(args, images[at.slot], tiles, shared.windows[slot], pair);
        }
        tile::fence_proxy_async();
        team_barrier();  // the image is read, and its cells are there
        if (is_elected) {
            shared.ring.full[slot].arrive();
            image_ring.release(at);
            ask_for_next();
        }
        at.advance();
        advance(tiles);
    }
}

// A lane's part of a block's filters, which stays in registers: a step has two taps side by side.
struct Filters {
    Filter step[STEPS];

    __device__ __forceinline__ Filters(const Arguments& args, Shared&) {
        const int first = (first_channel() / TILE_M * STEPS * 4 + tile::warp() % 4) * FILTER_WORDS;
#pragma unroll
        for (int i = 0; i < STEPS; ++i) step[i] = Filter(args.fragments + first + i * 4 * FILTER_WORDS);
    }
    __device__ __forceinline__ void wait(Shared&) const {}
};

// Issues the products of a tile: each step has two taps side by side.
__device__ __forceinline__ void multiply_tile(
    Products& products, const Filters& filters, Shared& shared, WindowRing::State at, Sums& sums) {
    shared.ring.wait(at);
    const Operand window(&shared.windows[at.slot].cell[0][SKIPPED], 16, 16 * CELLS_W);
    begin_products();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const int cell = step / ROW_STEPS * CELLS_W + step % ROW_STEPS * 2;
        multiply(products, filters.step[step], window.advance_bytes(16 * cell), sums[0], step > 0);
    }
}

// One thread initialises all mbarriers, before any thread waits for one. TMA fills the slots of
// `image_rings`, and one thread of a team those of `ring`, when the whole team has made a window.
__device__ __forceinline__ void open(Shared& shared) {
    for (tile::Mbarrier& mbarrier : shared.issued) mbarrier.init(4);  // the warps of a consumer
    for (ImageRing& ring : shared.image_rings) ring.open(1);
    shared.ring.open(RELEASES);
}

@@ 259a56a6 in whole/halo-body-sm_90a.cu: extern "C" __global__ void __launch_bounds__(THREADS, 1)
@@ 2+1
conv2d_stem_wgmma(const __grid_constant__ Arguments args) {
@@ 6+1

// Writes the filters as the lanes of a consumer hold them: for each cell the weights of its pixels, and zeros
// for what a filter does not have. Once for a set of weights, a thread per word.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= WEIGHT_ROWS / TILE_M * STEPS * 4 * FILTER_WORDS) return;
    const int part = index % 4, lane = index / 4 % 32, warp = index / FILTER_WORDS % 4;
    const int step = index / (4 * FILTER_WORDS) % STEPS, channels = index / (4 * FILTER_WORDS * STEPS);
    // A lane's words: two rows of the product, by four bytes of each of two cells.
    const int k = channels * TILE_M + channel_of_row(warp * 16 + part % 2 * 8 + lane / 4);
    const int cell_row = step / ROW_STEPS, cell_column = SKIPPED + step % ROW_STEPS * 2 + part / 2;
    const int r = cell_row * 2 + lane % 4 / 2 - (BEFORE_H - PAD_TOP);
    const int s = cell_column * 2 + lane % 2 - (BEFORE_W - PAD_LEFT);
    unsigned word = 0;
    for (int c = 0; c < C; ++c) {
        if (k >= K || r < 0 || r >= R || s < 0 || s >= S) continue;
        const W* const from = args.w + (k * REDUCTION + (r * S + s) * C + c);
        word |= static_cast<unsigned>(static_cast<unsigned char>(tile::load(from))) << (8 * c);
    }
    args.fragments[index] = static_cast<int>(word);
}
