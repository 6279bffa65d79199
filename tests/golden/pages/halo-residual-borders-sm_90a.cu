// conv2d:n=8:h=28:w=28:c=64:k=80:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_fold<<<80x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<6x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<144x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<128x1x1, 512, 200704 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=64 C_GROUP=64 OUT_H=28 OUT_W=28 K=80 K_GROUP=80 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=576 X_SIGNED=false W_SIGNED=true

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=64 OWN_ROWS=14 TAP_BYTES=64 WINDOW_H=16 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=64 LAST_ROW=64 SLABS=1 SLOTS=8 RELEASES=1 TILES_DOWN=2 TILES_ACROSS=4 CHANNEL_TILES=2
TILES=128 BLOCKS=128 WEIGHT_ROWS=128 ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1
COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=200704 FOLD_THREADS=128

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 10+1
    int* weights;  // the weights, with the rows of each 16 channels in the order of the lanes
@@ 12+3
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of the weights
    tile::TensorMap output_map;  // of y
    tile::TensorMap residual_map;  // of the residual
@@ 21+1

// The class of a tile's pixels in rows and columns of the first classes.
__device__ __forceinline__ int first_class(const Tiles&) { return 0; }

@@ 3e34ce36 in whole/halo-body-sm_90a.cu: struct Window {
@@ 3+0
    Staged residual;

static_assert(sizeof(Residual) == 1, "residuals must lie as the staged outputs of a tile do");
static_assert(WINDOWS_PER_TILE == 1 && SPLIT == 1, "a tile must have one window, in one block");

// The residuals of a fragment, as they lie in shared memory.
struct Residuals {
    unsigned word[ProductRows::CHANNELS / 2];
    __device__ __forceinline__ Inputs inputs(Sum sum, int i) const {
        return {sum, tile::byte_as_float<Residual>(word[i / 4], i % 4)};
    }
};

// The residuals of 16 channels of four rows, a fragment of each.
struct ChunkResiduals {
    unsigned row[4];
    __device__ __forceinline__ ChunkResiduals(Staged& staged, int pixel, int chunk) {
        tile::load_transposed(staged.chunk(pixel, chunk), row);
    }
    __device__ __forceinline__ Residuals load(const Fragment&, int number) const { return {{row[number]}}; }
};

// TMA copies the residuals of a tile beside its window.
struct TileResiduals {
    static constexpr bool IN_WINDOW = true;
    static constexpr int COPIED_BYTES = sizeof Window::residual;
    Staged& staged;

    __device__ __forceinline__ TileResiduals(const Arguments&, Window& window, const Tiles&)
        : staged(window.residual) {}
    static __device__ __forceinline__ void copy(
        const Arguments& args, Window& window, tile::Mbarrier& full, const Tiles& tiles) {
        tile::load_tile_4d(args.residual_map, &window.residual, full, first_channel(), tiles.column(),
                        tiles.row(), tiles.image());
    }
    __device__ __forceinline__ ChunkResiduals of_chunk(int pixel, int chunk) const {
        return {staged, pixel, chunk};
    }
};
