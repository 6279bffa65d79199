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

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 128;  // output pixels of a tile
WINDOW_H=18 WINDOW_W=10 ROW=128 LAST_ROW=96 SLABS=1 SLOTS=5 TILES_DOWN=2 TILES_ACROSS=4 CHANNEL_TILES=1
TILES=64 BLOCKS=64 WEIGHT_ROWS=80 SMEM_BYTES=231424

@@ 976447d7 in whole/halo-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 5+1
static_assert(TILE_N == 8 * TILE_H && TILE_N % 64 == 0, "a tile is whole instructions");
static_assert(TILE_M % 16 == 0, "a lane has four of each 16 channels");
static_assert(LAST_ROW % 32 == 0 && C <= (SLABS - 1) * ROW + LAST_ROW, "only zeros are left out");

constexpr int ATOMS = TILE_M / 8;

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

// A lane has four neighbouring channels of each 16, and of each eight rows of a tile two pixels of a column.
__device__ __forceinline__ int channel_of_lane() { return tile::lane() % 4 * 4; }
__device__ __forceinline__ int column_of_lane() { return tile::lane() / 4; }
__device__ __forceinline__ int row_of_warp() { return tile::warp() % 4 * 2; }

// Their parameters, which stay in registers: a block keeps its channels.
struct Channels {
    Channel channel[TILE_M / 16][4];

@@ efdded96 in whole/halo-body-sm_90a.cu:     __device__ __forceinline__ explicit Channels(const Arguments& args) {
@@ 3+3
        for (int i = 0; i < TILE_M / 4; ++i) {
            const int k = first_channel() + i / 4 * 16 + channel_of_lane() + i % 4;
            channel[i / 4][i % 4] = load_channel(args, k < K ? k : K - 1);

// Where 16 channels of a pixel of the tile lie.
__device__ __forceinline__ unsigned char* chunk_of(Staged& staged, int pixel, int chunk) {
    return &staged.pixel[pixel][chunk * 16];
}

// The outputs of a lane in two rows of a tile: of each pixel its four channels from `k` on.
__device__ __forceinline__ void finish_pixels(
    [[maybe_unused]] const Arguments& args, const Sum (*sums)[4], const Channel (&channels)[4],
    [[maybe_unused]] int row, [[maybe_unused]] int column, [[maybe_unused]] int k, Finished (&finished)[2][4]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const Inputs inputs = {sums[h / 2][2 * e + h % 2]};
            finished[e][h] = finish(inputs, channels[h]);
        }
    }
}

// A tile as bytes where the copy engine takes them from.
__device__ __forceinline__ void stage_pixels(
    const Arguments& args, Staged& staged, const Channels& channels,
    const Sum (&sums)[TILE_N / 64][ATOMS][4], const Tiles& tiles) {
    const int column = tiles.column() + column_of_lane(), channel = channel_of_lane();
#pragma unroll
    for (int n = 0; n < TILE_N / 64; ++n) {
        const int down = n * 8 + row_of_warp(), row = tiles.row() + down, pixel = down * 8 + column_of_lane();
#pragma unroll
        for (int chunk = 0; chunk < TILE_M / 16; ++chunk) {
            const int k = first_channel() + chunk * 16 + channel;
            Finished finished[2][4];
            finish_pixels(args, &sums[n][2 * chunk], channels.channel[chunk], row, column, k, finished);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                unsigned char* const to = chunk_of(staged, pixel + 8 * e, chunk) + channel;
                write(reinterpret_cast<Output*>(to), finished[e]);
            }
        }
    }
}

@@ 26f2a38c in whole/halo-body-sm_90a.cu: // A consumer's sums become outputs, and the copy engine stores those that lie in the image.
@@ 4+1
    const Sum (&sums)[TILE_N / 64][ATOMS][4], const Tiles& tiles) {
@@ 9+11
    stage_pixels(args, staged, channels, sums, tiles);

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 22+1
        Sum sums[TILE_N / 64][ATOMS][4];
@@ 35+0
                if (slab % SLABS == SLABS - 1 && c >= LAST_ROW) continue;
@@ 36+3
                for (int n = 0; n < TILE_N; n += 64) {
                    multiply(products, window.behind(of_window + (n / 8 * WINDOW_W + pixel) * ROW + c),
                             filters.behind(slab * TILE_M * ROW + c), sums[n / 64], slab + c > 0);
@@ 49+1
        for (int m = 0; m < TILE_N / 64; ++m) await(sums[m]);

// Which output channel is a column of the product: such that the sums of a lane in 16 columns are, for each
// of its pixels, those of four neighbouring channels.
__device__ __forceinline__ int channel_of_row(int row) {
    return row / 16 * 16 + row % 8 / 2 * 4 + row % 16 / 8 * 2 + row % 2;
}
