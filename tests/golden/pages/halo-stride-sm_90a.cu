// conv2d:n=8:h=28:w=28:c=80:k=64:r=3:s=3:stride=2,2:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_repack_weights<<<90x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<16x1x1, 512, 231424 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=80 C_GROUP=80 OUT_H=14 OUT_W=14 K=64 K_GROUP=64 R=3 S=3 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=1568 REDUCTION=720 X_SIGNED=true W_SIGNED=true

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
constexpr int WINDOW_H = 29;  // rows of a window
constexpr int WINDOW_W = 9;  // and columns, a stride from each other
ROW_STEP=1 WINDOWS=2 WINDOWS_ACROSS=2 ROW=128 LAST_ROW=96 SLABS=1 SLOTS=4 TILES_DOWN=1 TILES_ACROSS=2
CHANNEL_TILES=1 TILES=16 BLOCKS=16 WEIGHT_ROWS=64 SMEM_BYTES=231424

@@ 976447d7 in whole/halo-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 4+1
@@ 6+2
static_assert(LAST_ROW % 32 == 0 && C <= (SLABS - 1) * ROW + LAST_ROW, "only zeros are left out");
static_assert(WINDOW_H == ((TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H) / ROW_STEP + 1 &&
              WINDOW_W == 8 + (S - 1) * DILATION_W / STRIDE_W && WINDOWS % WINDOWS_ACROSS == 0,
              "the windows of all remainders have what a tile looks at");
static_assert(STRIDE_H % ROW_STEP == 0, "rows of a tile lie whole rows of a window from each other");

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

@@ 9d7815db in whole/halo-body-sm_90a.cu: // The tiles of a block, all of the same channels. Neighbours are made at the same time, so that their common
@@ 12+0
// The windows of these tiles. Each has every ROW_STEP-th row and every STRIDE_W-th column from its own on.
struct TileWindows : Tiles {
    int window = 0;
    __device__ __forceinline__ void advance() {
        if (++window < WINDOWS) return;
        window = 0;
        Tiles::advance();
    }
};

@@ 8ad52268 in whole/halo-body-sm_90a.cu: // One thread asks for the weights of all taps, which do not depend on the launch before, and for one window
@@ 13+1
    for (TileWindows tiles; tiles.any(); tiles.advance()) {
@@ 16+1
        const int column = tiles.column() * STRIDE_W - PAD_LEFT + tiles.window % WINDOWS_ACROSS;
        const int row = tiles.row() * STRIDE_H - PAD_TOP + tiles.window / WINDOWS_ACROSS;

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 11+1
            for (int window = 0; window < WINDOWS; ++window) at.advance();
@@ 26+3
        WindowRing::State window_at = at;
@@ 30+3
        for (int of_tile = 0; of_tile < WINDOWS; ++of_tile) {
            shared.ring.wait(window_at);
            begin_products();
            const Operand window(&shared.windows[window_at.slot], STRIDE_H / ROW_STEP * WINDOW_W * ROW);
@@ 34+1
            for (int slab = 0; slab < R * S * SLABS; ++slab) {
                const int tap = slab / SLABS, row = tap / S * DILATION_H, column = tap % S * DILATION_W;
                if (row % ROW_STEP * WINDOWS_ACROSS + column % STRIDE_W != of_tile) continue;
                const int of_window = slab % SLABS * static_cast<int>(sizeof(Slab));
                const int pixel = row / ROW_STEP * WINDOW_W + column / STRIDE_W;
@@ 36+3
                for (int c = 0; c < ROW; c += 32) {
                    if (slab % SLABS == SLABS - 1 && c >= LAST_ROW) continue;
#pragma unroll
                    for (int m = 0; m < TILE_M; m += 64) {
                        multiply(products, filters.behind((slab * TILE_M + m) * ROW + c),
                                 window.behind(of_window + pixel * ROW + c), sums[m / 64], slab + c > 0);
                    }
@@ 41+0
            window_at.advance();
@@ 47+1
        if (signals) {
            WindowRing::State read = at;
            for (int window = 0; window < WINDOWS; ++window, read.advance()) shared.ring.release(read);
        }
