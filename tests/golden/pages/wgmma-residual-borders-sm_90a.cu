// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    wgmma consumers=2 split_pixels=1 pixels=192 weight_slots=4 lag=2
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<9x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<288x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<17x1x1, 384, 214016 B>>> when: call

@@ // The config.
constexpr int CONSUMERS = 2;  // warpgroups that multiply
constexpr int TILE_N = 192;  // output pixels per consumer
WEIGHT_SLOTS=4 LAG=2

@@ // Derived values.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
PIXEL_RINGS=2 WEIGHT_RINGS=1 PIXEL_SLOTS=2 RESIDUAL_SLOTS=1 CHANNEL_TILES=1 TILES=17 BLOCKS=17
constexpr int WEIGHT_ROWS = 128;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3
SMEM_BYTES=214016 FOLD_THREADS=128

// The kernel's only parameter.
struct Arguments {
    const X* x;  // activations, NHWC
    const W* w;  // weights, KRSC
    Output* y;  // output, NHWK
    const Residual* residual;  // added before the activation, NHWK
    int* offset;  // per channel: written by fold: the int32 bias and what x_zero_point adds
    const float* scale;  // per channel: x_scale * w_scale
    const float* bias;  // per channel: the bias, in real units
    int* weights;  // weights, with the rows of each 128 channels in the order of the lanes
    int* borders;  // offsets by class of pixels and output channel
    tile::TensorMap pixel_map;  // map of x
    tile::TensorMap weight_map;  // map of the weights
    tile::TensorMap residual_map;  // map of the residual
    float residual_scale;  // the scale of the residual
    int residual_zero;  // the zero point of the residual
    float inverse;  // 1 / y_scale
    float y_zero;  // the output zero point
    int x_zero;  // the input zero point
};
static_assert(SLAB_CHANNELS * sizeof(X) == SLAB && C * sizeof(X) % 16 == 0, "TMA copies 16 bytes of a pixel");

@@ e28d828d in whole/wgmma-body-sm_90a.cu: // Slots of pixels or of weights, in rows of one slab, and the rings that guard them.
@@ 6+0
using ResidualRing = Ring<RESIDUAL_SLOTS>;

@@ bdaf5597 in whole/wgmma-body-sm_90a.cu: struct Shared {
@@ 4+0
    Slots<TILE_N, RESIDUAL_SLOTS> residuals[CONSUMERS];
@@ 6+0
    ResidualRing residual_ring[CONSUMERS];


// The residuals of a consumer's tile: one row per pixel, as long as a slab's row and swizzled alike.
static_assert(TILE_M * sizeof(Residual) == SLAB, "a row of residuals must be as wide as the swizzle");
using ResidualRows = unsigned char[TILE_N][SLAB];

// Fetches the residuals of the consumers' tiles: one thread. Each fetch starts as soon as a slot is empty:
// those of the first tile before the first product, the others while the previous tile is multiplied or
// written.
__device__ __forceinline__ void produce_residuals(const Arguments& args, Shared& shared) {
    ResidualRing::State at;
    for (Tiles tiles; tiles.any(); tiles.advance()) {
#pragma unroll
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
            const int channel = tiles.first_channel() + (WEIGHT_RINGS > 1 ? consumer : 0) * TILE_M;
            const int pixel = tiles.first_pixel() + (PIXEL_RINGS > 1 ? consumer : 0) * TILE_N;
            ResidualRows& rows = shared.residuals[consumer].slot[at.slot];
            tile::Mbarrier& full = shared.residual_ring[consumer].acquire(at, sizeof rows);
            tile::load_tile_2d(args.residual_map, rows, full, channel, pixel);
        }
        at.advance();
    }
}

// One thread per ring of a factor, and one for the residuals. The weights do not depend on the previous
// launch.
__device__ __forceinline__ void produce(const Arguments& args, Shared& shared) {
    if (tile::lane() != 0) return;
    const int ring = tile::warp() % 4;
    if (ring < PIXEL_RINGS) {
        tile::wait_on_dependency();
        produce(shared.pixel_ring[ring], shared.pixels[ring], PixelLoads{args, ring, 0, 0, 0});
    } else if (ring < PIXEL_RINGS + WEIGHT_RINGS) {
        const int part = ring - PIXEL_RINGS;
        produce(shared.weight_ring[part], shared.weights[part], WeightLoads{args, part, 0});
    } else if (ring == PIXEL_RINGS + WEIGHT_RINGS) {
        tile::wait_on_dependency();
        produce_residuals(args, shared);
    }
}

// Every channel of every tile exists.
constexpr bool WHOLE_TILES = K % (TILE_M * WEIGHT_RINGS) == 0;
// Every pixel of every tile exists.
constexpr bool WHOLE_PIXELS = PIXELS % (TILE_N * PIXEL_RINGS) == 0;

// The four residuals of a lane, packed as in shared memory.
struct Residuals {
    unsigned word;
    __device__ __forceinline__ float operator()(int i) const {
        return tile::byte_as_float<Residual>(word, i);
    }
};
// Returns the address of a lane's first residuals. The lanes of a warp access different banks.
__device__ __forceinline__ const unsigned char* residuals_at(
    const ResidualRows& rows, int pixel, int channel) {
    const int chunk = channel / 16 ^ pixel % 8;
    return &rows[pixel][chunk * 16 + channel % 16];
}

__device__ __forceinline__ Residuals load_residuals(const unsigned char* from) {
    // Volatile: otherwise the compiler loads the residuals of later pixels early, and spills registers that a
    // border needs.
    return {*reinterpret_cast<const volatile unsigned*>(from)};
}

@@ 0d3f2b92 in whole/wgmma-body-sm_90a.cu: // Finishes and writes a consumer's sums: TILE_N pixels by TILE_M channels from these on. The parameters of a
@@ 4+3
    const Arguments& args, const Sum (&sums)[2][ATOMS][4], const ResidualRows& rows, int first_pixel,
    int first_channel) {
    const int channel = tile::warp() % 4 * 32 + tile::lane() / 4 * 4, row = tile::lane() % 4 * 2;
    const int k = first_channel + channel, pixel = first_pixel + row;
    // Both advance by a constant per eight pixels.
    const unsigned char* const residuals_of[2] = {
        residuals_at(rows, row, channel), residuals_at(rows, row + 1, channel)};
    Output* const y = args.y + (pixel * K + k);
@@ 10+0
    const Classes classes(first_pixel);
@@ 16+0
            const Residuals residuals = load_residuals(residuals_of[e] + 8 * atom * SLAB);
            const OfPixel of_pixel(args, channels, classes.of(atom, e), k);
@@ 19+2
                const Inputs inputs = {four[i], residuals(i)};
                finished[i] = finish(inputs, of_pixel.channel[i]);
@@ 22+2
            if (!WHOLE_PIXELS && pixel + 8 * atom + e >= PIXELS) continue;
            Output* const to = y + (8 * atom + e) * K;

@@ 086f6ea2 in whole/wgmma-body-sm_90a.cu: // Multiplies the slabs of a consumer's tiles: one warpgroup. It releases a slab's slots once it has issued
@@ 9+0
    ResidualRing& residual_ring = shared.residual_ring[consumer];
    ResidualRing::State residuals_at;
@@ 48+2
        residual_ring.wait(residuals_at);
        write_sums(args, sums, shared.residuals[consumer].slot[residuals_at.slot],
                   tiles.first_pixel() + pixel_part * TILE_N, tiles.first_channel() + weight_part * TILE_M);
        tile::warp_barrier();  // the warp has read its residuals
        if (tile::lane() == 0) residual_ring.release(residuals_at);
        residuals_at.advance();

@@ cb8772fd in whole/wgmma-body-sm_90a.cu: extern "C" __global__ void __launch_bounds__(THREADS, 1)
@@ 9+0
        for (ResidualRing& ring : shared.residual_ring) ring.open(4);  // the warps of a consumer
