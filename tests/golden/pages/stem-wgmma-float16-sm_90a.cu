// conv2d:n=8:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    stem_wgmma rows=8 consumers=3 team=1
// launch    conv2d_repack_weights<<<56x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem_wgmma<<<132x1x1, 512, 64512 B>>> when: call

@@ // The config.
TILE_H=8 CONSUMERS=3 TEAM=1

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=56 CONSUMER_REGISTERS=152
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 64;  // output pixels of a tile
BEFORE_H=3 BEFORE_W=4 SKIPPED=0 TAPS_H=7 ROW_STEPS=2 CELLS_H=21 CELLS_W=11 IMAGE_BYTES=144 IMAGE_SHIFT=4
IMAGES=2 TILES_DOWN=14 TILES_ACROSS=14 CHANNEL_TILES=1 TILES=1568 BLOCKS=132 WEIGHT_ROWS=64 SMEM_BYTES=64512

@@ 3ed52cf9 in pages/stem-wgmma-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer must be one more warpgroup");
@@ 6+10

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    int* fragments;  // the filters as the lanes of a consumer hold them
    tile::TensorMap image_map;  // of x

// wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Four warps execute it together; its sums are awaited later. The
// filters are in registers; the pixels are in shared memory, as contiguous matrices of eight rows x 16 bytes,
// without a swizzle.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
constexpr int FILTER_WORDS = 128;  // per warp and step

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 2+1
#define SUMS_OF_ATOM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
@@ 4+1
    Products&, const Filter& a, const Operand& b, Sum (&d)[ATOMS][4], bool adds) {
@@ 8+2
        "setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
@@ 17+19
        "%28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, "
        "%36, adds, 1, 1, 0;\n"
@@ 44+18
          SUMS_OF_ATOM(7)
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.descriptor),
          "r"(static_cast<int>(adds)));

static_assert(IN_W * C % 8 == 0, "rows of the image must be whole chunks");
static_assert(TILE_M == 64 && TILE_N == 8 * TILE_H && TILE_H % 2 == 0, "a tile must be eight pixels wide");
static_assert(BEFORE_H == PAD_TOP && BEFORE_W % 2 == 0 && BEFORE_W >= PAD_LEFT,
              "the padding must be whole cells");
static_assert(2 * (SKIPPED + 2 * ROW_STEPS) >= BEFORE_W - PAD_LEFT + S,
              "ROW_STEPS must have all taps of a filter row");
static_assert(ROW_STEPS * 2 + SKIPPED + 7 <= CELLS_W, "CELLS_W must cover the windows of a tile");
static_assert(TAPS_H == R && CELLS_H == 2 * (TILE_H - 1) + R, "CELLS_H must cover the windows of a tile");
static_assert(sizeof(X) == 2 && sizeof(W) == 2, "two pixels of four channels must be 16 bytes");
// The rows of the image that a tile depends on, as they lie there: IMAGE_BYTES each, from the chunk on that
// has the first of its cells.
struct alignas(128) Image { unsigned char row[CELLS_H][IMAGE_BYTES]; };
// The same as cells: two neighbouring pixels of two words each, the 16 bytes of a tap. Outputs lie two pixels
// apart, so that neighbouring outputs read neighbouring cells.
struct alignas(128) Window { tile::Words<4> cell[CELLS_H][CELLS_W]; };

// Rows of the product are output channels in their order, and its columns are the pixels of a tile, eight to
// a row of the tile. A fragment has two pixels of a row and one channel: two outputs of two bytes are a word.
struct ChannelRows {
    static constexpr bool ARE_PIXELS = false;
    static constexpr int INSTRUCTIONS = 1;  // for the rows of a tile's product
    static constexpr int FRAGMENTS = OWN_ROWS;  // of a lane, per group of channels
    static constexpr int FRAGMENT_ATOMS = 1;
    static constexpr int CHANNELS = 1;  // of a fragment
    static constexpr int DOWN = 0, ACROSS = 1;  // from its first pixel to its second
    static constexpr int GROUPS = 2;  // of channels: a lane has CHANNELS of each

    static __device__ __forceinline__ int channel(int group) {
        return first_channel() + tile::warp() % 4 * 16 + group * 8 + tile::lane() / 4;
    }
    static __device__ __forceinline__ Fragment fragment(const Tiles& tiles, int group, int number) {
        return {tiles.column() + tile::lane() % 4 * 2, tiles.own_row() + number, channel(group)};
    }
    // The sum for pixel `e` of a fragment.
    static __device__ __forceinline__ Sum sum(const Sum (*atoms)[4], int e, int) { return atoms[0][e]; }
    // The outputs of a fragment as a word, for `stmatrix`.
    static __device__ __forceinline__ unsigned word(const Finished (&finished)[2]) {
        alignas(4) Output outputs[2];
        write(outputs, finished);
        return reinterpret_cast<const tile::Words<1>*>(outputs)->word[0];
    }
    // Maps a chunk of 8 channels of a staged pixel to its place in TMA's swizzle.
    static __device__ __forceinline__ int swizzled(int pixel, int chunk) { return chunk ^ pixel % 8; }
};
using ProductRows = ChannelRows;
static_assert(8 * ATOMS == TILE_N && TILE_M == 64, "an instruction multiplies 64 channels by all pixels");
static_assert(sizeof(Output) == 2, "64 channels of a pixel must be a row of TMA's swizzle");

__device__ __forceinline__ int channel_of_row(int row) { return row; }

// Outputs of a tile in shared memory, from where TMA stores them.
struct alignas(1024) Staged {
    Output pixel[STAGED_PIXELS][TILE_M];

@@ 32afa7da in whole/halo-body-sm_90a.cu:     // By one thread: TMA stores the outputs that lie in the image, the first of them at `column` and `row`.
@@ 6+3
    // 8 channels of a pixel.
    __device__ __forceinline__ Output* chunk(int of_pixel, int number) {
        return &pixel[of_pixel][ProductRows::swizzled(of_pixel, number) * 8];

// A lane of the producer makes a cell at a time, of a pair of pixels. Padding is zeros, which TMA brings. The
// fourth of three channels is the first of the next pixel, or zero: it is multiplied by zero.
constexpr int PAIRS = CELLS_H * CELLS_W;

__device__ __forceinline__ void make_cells(
    const Arguments&, const Image& image, const Tiles&, Window& window, int pair) {
    const int row = pair / CELLS_W, column = pair % CELLS_W;
    const unsigned char* const pixels = &image.row[row][(IMAGE_SHIFT + column * 2 * C) * sizeof(X)];
    const unsigned* const from = reinterpret_cast<const unsigned*>(pixels);
    tile::Words<4>& cell = window.cell[row][column];
    if constexpr (C == 4) {
        cell = tile::load_shared<4>(from);
    } else {
        cell = {{from[0], from[1], tile::pick<2, 3, 4, 5>(from[1], from[2]), from[2] >> 16}};
    }
}

@@ 7b46dc1f in pages/stem-wgmma-body-sm_90a.cu: // Issues the products of a tile: each step has two taps side by side.
@@ 5+1
    // The next row of outputs reads two rows of cells further down.
    const Operand window(&shared.windows[at.slot].cell[0][SKIPPED], 16, 2 * 16 * CELLS_W);

// Stages a tile, two rows at a time: 64 channels, of which a warp has 16, two matrices of eight.
__device__ __forceinline__ void stage_tile(
    const Arguments& args, Staged& staged, const TileResiduals&, const Channels& channels,
    const OwnSums& sums, const Tiles& tiles) {
#pragma unroll
    for (int first = 0; first < OWN_ROWS; first += 2) {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = first + i / 2, group = i % 2;
            const Sum pixels[1][4] = {{sums[0][row][2 * group], sums[0][row][2 * group + 1]}};
            Finished finished[2];
            finish_fragment(args, pixels, Residuals(), channels.channel[group],
                            ProductRows::fragment(tiles, group, row), finished);
            words[i] = ProductRows::word(finished);
        }
        // A lane names a pixel for `stmatrix`, and the half of the warp's channels that is stored there.
        const int pixel = 8 * (first + tile::lane() / 16) + tile::lane() % 8;
        tile::store_matrices(staged.chunk(pixel, tile::warp() % 4 * 2 + tile::lane() / 8 % 2), words);
    }
}

@@ d5b40280 in pages/stem-wgmma-body-sm_90a.cu: // Writes the filters as the lanes of a consumer hold them: for each cell the weights of its pixels, and zeros
@@ 11+3
    // Two channels of a pixel of the cell.
    const int r = step / ROW_STEPS, cell_column = SKIPPED + step % ROW_STEPS * 2 + part / 2;
    const int s = cell_column * 2 + lane % 4 / 2 - (BEFORE_W - PAD_LEFT);
@@ 15+2
    for (int i = 0; i < 2; ++i) {
        const int c = lane % 2 * 2 + i;
        if (k >= K || s < 0 || s >= S || c >= C) continue;
@@ 18+1
        word |= static_cast<unsigned>(tile::load(from)) << (16 * i);
