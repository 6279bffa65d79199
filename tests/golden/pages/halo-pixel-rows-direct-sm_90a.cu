// conv2d:n=8:h=28:w=28:c=64:k=36:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=8 consumers=3 channels=48
// launch    conv2d_repack_weights<<<54x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<128x1x1, 512, 86016 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=64 C_GROUP=64 OUT_H=28 OUT_W=28 K=36 K_GROUP=36 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=576 X_SIGNED=true W_SIGNED=true

@@ // The config.
TILE_H=8 CONSUMERS=3
constexpr int TILE_M = 48;  // output channels of a tile

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 64;  // output pixels of a tile
WINDOW_H=10 WINDOW_W=10 ROW=64 SLABS=1 SLOTS=8 TILES_DOWN=4 TILES_ACROSS=4 CHANNEL_TILES=1 TILES=128
BLOCKS=128 WEIGHT_ROWS=48
constexpr int VECTOR_K = 4;  // neighbouring channels that a lane reads or writes at once
SMEM_BYTES=86016

@@ 976447d7 in whole/halo-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 5+1
static_assert(TILE_N == 8 * TILE_H && TILE_N % 64 == 0, "a tile is whole instructions");
static_assert(TILE_M % 16 == 0, "a lane has four of each 16 channels");

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 11+1

// wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8: 64 pixels by TILE_M output channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %26, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8 {"
@@ 15+21
        "%20, %21, %22, %23}, "
        "%24, "
        "%25, adds;\n"
@@ 42+19
          SUMS_OF_ATOM(5)

@@ dd0af321 in whole/halo-body-sm_90a.cu: // A row of shared memory is channels of a pixel, and zeros behind the last. A slab of a window begins at a
@@ 4+2

@@ 73f325ed in whole/halo-body-sm_90a.cu: struct Shared {
@@ 4+1

// A consumer's sums become outputs: those that lie in the image are stored VECTOR_K channels at a time.
__device__ __forceinline__ void write_sums(
    const Arguments& args, Shared&, int, const Channels& channels,
    const Sum (&sums)[TILE_N / 64][ATOMS][4], const Tiles& tiles) {
    const int column = tiles.column() + column_of_lane();
#pragma unroll
    for (int n = 0; n < TILE_N / 64; ++n) {
        const int row = tiles.row() + n * 8 + row_of_warp();
#pragma unroll
        for (int chunk = 0; chunk < TILE_M / 16; ++chunk) {
            const int k = first_channel() + chunk * 16 + channel_of_lane();
            Finished finished[2][4];
            finish_pixels(args, &sums[n][2 * chunk], channels.channel[chunk], row, column, k, finished);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                if (row + e >= OUT_H || column >= OUT_W) continue;
                Output* const to = args.y + (((tiles.image() * OUT_H + row + e) * OUT_W + column) * K + k);
#pragma unroll
                for (int h = 0; h < 4; h += VECTOR_K) {
                    if (!WHOLE_TILES && k + h >= K) continue;
                    Finished vector[VECTOR_K];
#pragma unroll
                    for (int i = 0; i < VECTOR_K; ++i) vector[i] = finished[e][h + i];
                    write(to + h, vector);
                }
            }
        }
    }
}

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 22+1
        Sum sums[TILE_N / 64][ATOMS][4];
@@ 36+3
                for (int n = 0; n < TILE_N; n += 64) {
                    multiply(products, window.behind(of_window + (n / 8 * WINDOW_W + pixel) * ROW + c),
                             filters.behind(slab * TILE_M * ROW + c), sums[n / 64], slab + c > 0);
@@ 49+1
        for (int m = 0; m < TILE_N / 64; ++m) await(sums[m]);
@@ 53+2
