// conv2d:n=8:h=28:w=28:c=80:k=80:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=16 consumers=2 channels=80
// launch    conv2d_repack_weights<<<113x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<64x1x1, 384, 231424 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=80 C_GROUP=80 OUT_H=28 OUT_W=28 K=80 K_GROUP=80 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=720 X_SIGNED=true W_SIGNED=true

@@ // The config.
TILE_H=16 CONSUMERS=2
constexpr int TILE_M = 80;  // output channels of a tile
SPLIT=1

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 128;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=80 OWN_ROWS=16 TAP_BYTES=80 WINDOW_H=18 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=128 LAST_ROW=96 SLABS=1 SLOTS=5 RELEASES=1 TILES_DOWN=2 TILES_ACROSS=4 CHANNEL_TILES=1
TILES=64 BLOCKS=64 WEIGHT_ROWS=80 SMEM_BYTES=231424

constexpr int ATOMS = 10;  // of eight columns each, in an instruction
constexpr int STEPS = ((SLABS - 1) * ROW + LAST_ROW) / 32;  // instructions per tap and 64 rows of the product
// Instructions per tile.
[[maybe_unused]] constexpr int PRODUCTS = R * S * STEPS * (TILE_M * TILE_N / (64 * 8 * ATOMS));

// wgmma.mma_async.sync.aligned.m64n80k32.s32.s8.s8: 64 pixels by TILE_M output channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %42, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n80k32.s32.s8.s8 {"
@@ 19+17
        "%36, %37, %38, %39}, "
        "%40, "
        "%41, adds;\n"
@@ 46+15
          SUMS_OF_ATOM(9)

// Rows of the product are the pixels of a tile, and its columns are output channels: fewer are multiplied
// where they are no multiple of 64. A fragment has two pixels of a column and four channels.
struct PixelRows {
    static constexpr bool ARE_PIXELS = true;
    static constexpr int INSTRUCTIONS = TILE_N / 64;  // for the rows of a tile's product
    static constexpr int FRAGMENTS = TILE_M / 16;  // of a lane, per instruction
    static constexpr int FRAGMENT_ATOMS = 2;
    static constexpr int CHANNELS = 4;  // of a fragment
    static constexpr int DOWN = 1, ACROSS = 0;  // from its first pixel to its second
    static constexpr int GROUPS = TILE_M / 16;  // of channels: a lane has CHANNELS of each

    static __device__ __forceinline__ int channel(int group) {
        return first_channel() + group * 16 + tile::lane() % 4 * 4;
    }
    static __device__ __forceinline__ int group(int, int fragment) { return fragment; }
    // From the first row of the tile to a fragment's.
    static __device__ __forceinline__ int down(int instruction) {
        return instruction * 8 + tile::warp() % 4 * 2;
    }
    static __device__ __forceinline__ Fragment fragment(const Tiles& tiles, int instruction, int number) {
        return {tiles.column() + tile::lane() / 4, tiles.row() + down(instruction), channel(number)};
    }
    // The sum for pixel `e` and channel `h` of a fragment.
    static __device__ __forceinline__ Sum sum(const Sum (*atoms)[4], int e, int h) {
        return atoms[h / 2][2 * e + h % 2];
    }
    // Maps a chunk of 16 channels of a staged pixel to its place: TMA does not swizzle these.
    static __device__ __forceinline__ int swizzled(int, int chunk) { return chunk; }
};
using ProductRows = PixelRows;
static_assert(8 * ATOMS == TILE_M && TILE_N % 64 == 0, "an instruction multiplies 64 pixels by all channels");
static_assert(TILE_M % 16 == 0, "a lane must have four of each 16 channels");

// Maps a column of the product to its output channel, so that a lane's sums in 16 columns belong, for each of
// its pixels, to four neighbouring channels.
__device__ __forceinline__ int channel_of_row(int row) {
    return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;
}

// Stages a tile: of each fragment four channels of two pixels.
__device__ __forceinline__ void stage_tile(
    const Arguments& args, Staged& staged, const TileResiduals& residuals, const Channels& channels,
    const OwnSums& sums, const Tiles& tiles) {
#pragma unroll
    for (int n = 0; n < TILE_N / 64; ++n) {
        const int pixel = ProductRows::down(n) * 8 + tile::lane() / 4;
#pragma unroll
        for (int chunk = 0; chunk < TILE_M / 16; ++chunk) {
            const Fragment fragment = ProductRows::fragment(tiles, n, chunk);
            Finished finished[8];
            finish_fragment(args, &sums[n][2 * chunk], residuals.of_chunk(pixel, chunk).load(fragment, 0),
                            channels.channel[chunk], fragment, finished);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const Finished four[4] = {finished[4 * e], finished[4 * e + 1], finished[4 * e + 2],
                                          finished[4 * e + 3]};
                unsigned char* const to = staged.chunk(pixel + 8 * e, chunk) + tile::lane() % 4 * 4;
                write(reinterpret_cast<Output*>(to), four);
            }
        }
    }
}
