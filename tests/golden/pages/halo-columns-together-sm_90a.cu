// conv2d:n=8:h=28:w=28:c=24:k=48:r=3:s=3:stride=2,2:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    halo rows=8 consumers=2 channels=48
// launch    conv2d_fold<<<48x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<27x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<32x1x1, 384, 107520 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=14 C=48 C_GROUP=48 OUT_H=14 OUT_W=14 K=48 K_GROUP=48 R=3 S=2 STRIDE_H=2 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=1568 REDUCTION=216 X_SIGNED=false W_SIGNED=true
COLUMNS_TOGETHER=2 X_C=24 FILTER_W=3 ZERO_COLUMNS=1

@@ // The config.
TILE_H=8 CONSUMERS=2
constexpr int TILE_M = 48;  // output channels of a tile

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 64;  // output pixels of a tile
constexpr int WINDOW_H = 17;  // rows of a window
constexpr int WINDOW_W = 9;  // and columns, a stride from each other
ROW_STEP=1 WINDOWS=1 WINDOWS_ACROSS=1 ROW=64 SLABS=1 SLOTS=8 TILES_DOWN=2 TILES_ACROSS=2 CHANNEL_TILES=1
TILES=32 BLOCKS=32 WEIGHT_ROWS=48
constexpr int VECTOR_K = 4;  // neighbouring channels that a lane reads or writes at once
ROWS_BEFORE=1 ROWS_BEHIND=0 ROW_CLASSES=2 COLUMNS_BEFORE=1 COLUMNS_BEHIND=0 COLUMN_CLASSES=2 SMEM_BYTES=107520
FOLD_THREADS=128

@@ 4a377193 in pages/halo-gathered-words-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 2+2
static_assert(C_GROUP == C && K_GROUP == K && C % 16 == 0, "one group, of whole 16 bytes a pixel");
@@ 5+1
static_assert(TILE_N == 8 * TILE_H && TILE_N % 64 == 0, "a tile is whole instructions");
static_assert(TILE_M % 16 == 0, "a lane has four of each 16 channels");
@@ 10+0
static_assert(C == COLUMNS_TOGETHER * X_C && ZERO_COLUMNS + FILTER_W <= S * COLUMNS_TOGETHER,
              "the taps have all columns of a filter");

@@ 9f3408e7 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 10+1
    int* weights;  // the weights, with the rows of each 16 channels in the order of the lanes
@@ 12+3
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of the weights
    tile::TensorMap output_map;  // of y

// wgmma.mma_async.sync.aligned.m64n48k32.s32.u8.s8: 64 pixels by TILE_M output channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == false,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %26, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k32.s32.u8.s8 {"
@@ 15+21
        "%20, %21, %22, %23}, "
        "%24, "
        "%25, adds;\n"
@@ 42+19
          SUMS_OF_ATOM(5)

// Those of four channels of a pixel.
struct alignas(VECTOR_K * sizeof(Residual)) Residuals {
    Residual element[4];
    __device__ __forceinline__ int operator()(int i) const { return element[i]; }
};
struct alignas(VECTOR_K * sizeof(Residual)) ResidualVector { Residual element[VECTOR_K]; };

// Those of the channels from `k` on that exist, if the pixel does.
__device__ __forceinline__ Residuals load_residuals(
    const Arguments& args, int image, int row, int column, int k) {
    Residuals residuals = {};
    if (row >= OUT_H || column >= OUT_W) return residuals;
    const Residual* const from = args.residual + (((image * OUT_H + row) * OUT_W + column) * K + k);
#pragma unroll
    for (int i = 0; i < 4; i += VECTOR_K) {
        if (!WHOLE_TILES && k + i >= K) continue;
        *reinterpret_cast<ResidualVector*>(&residuals.element[i]) =
            *reinterpret_cast<const ResidualVector*>(from + i);
    }
    return residuals;
}

@@ 93bf3246 in pages/halo-pixel-rows-sm_90a.cu: // The outputs of a lane in two rows of a tile: of each pixel its four channels from `k` on.
@@ 3+1
    [[maybe_unused]] const Arguments& args, const Sum (*sums)[4], const Residuals (&residuals)[2],
    const Channel (&channels)[4],
@@ 7+0
        const int border = border_of((row + e) * OUT_W + column);
@@ 9+2
            const Inputs inputs = {sums[h / 2][2 * e + h % 2], residuals[e](h)};
            finished[e][h] = finish(inputs, with_offset_of(args, channels[h], border, k + h));

@@ 2e937958 in pages/halo-pixel-rows-sm_90a.cu: // A tile as bytes where the copy engine takes them from.
@@ 13+1
            Residuals residuals[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                residuals[e] = load_residuals(args, tiles.image(), row + e, column, k);
            }
            finish_pixels(args, &sums[n][2 * chunk], residuals, channels.channel[chunk], row, column, k,
                          finished);

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 11+1
            for (int window = 0; window < WINDOWS; ++window) at.advance();
@@ 22+1
        Sum sums[TILE_N / 64][ATOMS][4];
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
#pragma unroll
                    for (int n = 0; n < TILE_N; n += 64) {
                        const int first = n / 8 * (STRIDE_H / ROW_STEP) * WINDOW_W + pixel;
                        multiply(products, window.behind(of_window + first * ROW + c),
                                 filters.behind(slab * TILE_M * ROW + c), sums[n / 64], slab + c > 0);
                    }
@@ 41+0
            window_at.advance();
@@ 47+1
        if (signals) {
            WindowRing::State read = at;
            for (int window = 0; window < WINDOWS; ++window, read.advance()) shared.ring.release(read);
        }
@@ 49+1
        for (int m = 0; m < TILE_N / 64; ++m) await(sums[m]);

// An element of a filter by what is a tap and a channel here: zeros stand for columns that it does not have.
__device__ __forceinline__ W weight_of(const Arguments& args, int k, int tap, int c) {
    const int column = tap % S * COLUMNS_TOGETHER + c / X_C - ZERO_COLUMNS;
    if (column < 0 || column >= FILTER_W) return 0;
    return tile::load(args.w + (k * REDUCTION + (tap / S * FILTER_W + column) * X_C + c % X_C));
}

@@ a6543b41 in pages/halo-gathered-copies-sm_90a.cu: // Rearranges the weights into rows of the product. Runs once per set of weights, with one thread per word.
@@ 4+1
    constexpr int ROW_WORDS = R * S * C / 4;
@@ 8+1
    const int tap = index % ROW_WORDS * 4 / C, first = index % ROW_WORDS * 4 % C;
@@ 11+2
        const W weight = weight_of(args, k, tap, c);
        word |= static_cast<unsigned>(static_cast<unsigned char>(weight)) << (c - first) * 8;

@@ eb1ca0cb in shared.cu: // Computes what conv2d_fold computes for inner pixels, for every class of border pixels. Runs once per set of
@@ 13+1
        for (int c = 0; c < C; ++c) sum += weight_of(args, k, tap, c);
