// conv2d:n=8:h=28:w=28:c=128:k=256:r=2:s=2:pad=1,1,1,1:pixel_shuffle=2,2:crop=1,1,1,1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_repack_weights<<<256x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<132x1x1, 512, 173056 B>>> when: call

@@ // The config.
TILE_H=14 CONSUMERS=3
constexpr int TILE_M = 64;  // output channels of a tile
SPLIT=1

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=128 OWN_ROWS=14 TAP_BYTES=128 WINDOW_H=15 WINDOW_W=9 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=128 LAST_ROW=128 SLABS=1 SLOTS=8 RELEASES=1 TILES_DOWN=3 TILES_ACROSS=4 CHANNEL_TILES=4
TILES=384 BLOCKS=132 WEIGHT_ROWS=256
constexpr int VECTOR_K = 2;  // neighbouring channels that a lane reads or writes at once
SMEM_BYTES=173056

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 11+1

constexpr int ATOMS = 14;  // of eight columns each, in an instruction
constexpr int STEPS = ((SLABS - 1) * ROW + LAST_ROW) / 32;  // instructions per tap and 64 rows of the product
// Instructions per tile.
[[maybe_unused]] constexpr int PRODUCTS = R * S * STEPS * (TILE_M * TILE_N / (64 * 8 * ATOMS));

// wgmma.mma_async.sync.aligned.m64n112k32.s32.s8.s8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %58, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n112k32.s32.s8.s8 {"
@@ 23+13
        "%52, %53, %54, %55}, "
        "%56, "
        "%57, adds;\n"
@@ 50+11
          SUMS_OF_ATOM(13)

@@ 20bbb4d9 in whole/halo-body-sm_90a.cu: struct Shared {
@@ 4+1

// Makes outputs of a consumer's sums. Lanes store those that lie in the image, VECTOR_K channels at a time.
__device__ __forceinline__ void write_sums(
    const Arguments& args, Shared&, int, const TileResiduals& residuals, const Channels& channels,
    const OwnSums& sums, const Tiles& tiles) {
    constexpr int CHANNELS = ProductRows::CHANNELS;
#pragma unroll
    for (int instruction = 0; instruction < ProductRows::INSTRUCTIONS; ++instruction) {
#pragma unroll
        for (int number = 0; number < ProductRows::FRAGMENTS; ++number) {
            const Fragment fragment = ProductRows::fragment(tiles, instruction, number);
            const int k = fragment.k;
            Finished finished[2 * CHANNELS];
            finish_fragment(args, &sums[instruction][number * ProductRows::FRAGMENT_ATOMS],
                            residuals.load(fragment, number),
                            channels.channel[ProductRows::group(instruction, number)], fragment, finished);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int row = fragment.row + e * ProductRows::DOWN;
                const int column = fragment.column + e * ProductRows::ACROSS;
                if (row >= OUT_H || column >= OUT_W) continue;
                Finished of_pixel[CHANNELS];
#pragma unroll
                for (int i = 0; i < CHANNELS; ++i) of_pixel[i] = finished[e * CHANNELS + i];
                write_shuffled<VECTOR_K, WHOLE_TILES>(args.y, {tiles.image(), row, column}, k, K, of_pixel);
            }
        }
    }
}
__device__ __forceinline__ void wait_for_stores(bool) {}
