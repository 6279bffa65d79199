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
MERGED_COLUMNS=2 X_C=24 FILTER_W=3 ZERO_COLUMNS=1

@@ // The config.
TILE_H=8 CONSUMERS=2
constexpr int TILE_M = 48;  // output channels of a tile
SPLIT=1

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 64;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=48 OWN_ROWS=8 TAP_BYTES=48 WINDOW_H=17 WINDOW_W=9 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=64 LAST_ROW=64 SLABS=1 SLOTS=8 RELEASES=1 TILES_DOWN=2 TILES_ACROSS=2 CHANNEL_TILES=1
TILES=32 BLOCKS=32 WEIGHT_ROWS=48
constexpr int VECTOR_K = 4;  // neighbouring channels that a lane reads or writes at once
ROWS_BEFORE=1 ROWS_BEHIND=0 ROW_CLASSES=2 COLUMNS_BEFORE=1 COLUMNS_BEHIND=0 COLUMN_CLASSES=2 SMEM_BYTES=107520
FOLD_THREADS=128

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 10+1
    int* weights;  // the weights, with the rows of each 16 channels in the order of the lanes
@@ 12+3
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of the weights
    tile::TensorMap output_map;  // of y
@@ 21+1

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

constexpr bool WHOLE_RESIDUALS = K % TILE_M == 0;  // whether every channel of every tile exists

// Several residuals at once, in memory that holds single ones.
struct __attribute__((may_alias, aligned(VECTOR_K * sizeof(Residual)))) ResidualVector {
    Residual element[VECTOR_K];
};

// The residuals of a fragment.
struct alignas(VECTOR_K * sizeof(Residual)) Residuals {
    Residual element[2 * ProductRows::CHANNELS];
    __device__ __forceinline__ Inputs inputs(Sum sum, int i) const { return {sum, element[i]}; }
};

// A lane loads the residuals of a tile from device memory, where it needs them.
struct TileResiduals {
    static constexpr bool IN_WINDOW = false;
    static constexpr int COPIED_BYTES = 0;
    const Arguments& args;
    const Tiles& tiles;

    __device__ __forceinline__ TileResiduals(const Arguments& args, Window&, const Tiles& tiles)
        : args(args), tiles(tiles) {}
    static __device__ __forceinline__ void copy(const Arguments&, Window&, tile::Mbarrier&, const Tiles&) {}
    __device__ __forceinline__ const TileResiduals& of_chunk(int, int) const { return *this; }
    // Residuals of pixels outside of the image, and of channels that do not exist, are zeros.
    __device__ __forceinline__ Residuals load(const Fragment& fragment, int) const {
        constexpr int CHANNELS = ProductRows::CHANNELS;
        Residuals residuals = {};
#pragma unroll
        for (int i = 0; i < 2 * CHANNELS; i += VECTOR_K) {
            const int row = fragment.row + i / CHANNELS * ProductRows::DOWN;
            const int column = fragment.column + i / CHANNELS * ProductRows::ACROSS;
            const int k = fragment.k + i % CHANNELS;
            if (row >= OUT_H || column >= OUT_W || (!WHOLE_RESIDUALS && k >= K)) continue;
            const int pixel = (tiles.image() * OUT_H + row) * OUT_W + column;
            *reinterpret_cast<ResidualVector*>(&residuals.element[i]) =
                *reinterpret_cast<const ResidualVector*>(args.residual + (pixel * K + k));
        }
        return residuals;
    }
};

// A weight of output channel `k`. A tap is MERGED_COLUMNS columns of the filter, whose channels are side by
// side: zeros stand for columns that the filter does not have.
__device__ __forceinline__ W weight_of(const Arguments& args, int k, int tap, int c) {
    const int column = tap % S * MERGED_COLUMNS + c / X_C - ZERO_COLUMNS;
    if (column < 0 || column >= FILTER_W) return 0;
    return tile::load(args.w + (k * REDUCTION + (tap / S * FILTER_W + column) * X_C + c % X_C));
}

@@ 700805ba in shared.cu: // Computes what conv2d_fold computes for inner pixels, for every class of border pixels. Runs once per set of
@@ 10+8
    for (int tap = 0; tap < R * S; ++tap) {
        const int row = first_row + tap / S * DILATION_H, column = first_column + tap % S * DILATION_W;
        if (row < 0 || row >= IN_H || column < 0 || column >= IN_W) continue;
        for (int c = 0; c < C; ++c) sum += weight_of(args, k, tap, c);
@@ 19+1
    args.borders[index] = -args.x_zero * sum;
