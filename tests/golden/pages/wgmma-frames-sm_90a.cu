// conv2d:n=16:h=28:w=28:c=384:k=192:r=3:s=3:pad=1,1,1,1:frames=8,8,3,1,1,1:x_type=uint8:w_type=int8:
//     out_type=uint8:per_channel:x_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_90a
// config    wgmma consumers=2 split_pixels=0 pixels=192 weight_slots=3 lag=2
// launch    conv2d_fold<<<192x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<41x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<1728x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<66x1x1, 384, 222208 B>>> when: call

@@ 20379a83 in whole/wgmma-body-sm_90a.cu: // The problem.
@@ 4+2
constexpr int C = 384;
constexpr int C_GROUP = 384;  // input channels per group
@@ 8+2
constexpr int K = 192;
constexpr int K_GROUP = 192;  // output channels per group
@@ 19+3
constexpr int PIXELS = 12544;  // output pixels of all images
constexpr int REDUCTION = 3456;  // products per output
constexpr bool X_SIGNED = false;
@@ 23+0
constexpr int IMAGES = 8;  // of a volume
[[maybe_unused]] constexpr int FRAMES = 8;  // of a volume
[[maybe_unused]] constexpr int FRAME_TAPS = 3;  // frames whose channels are those of an image
constexpr int FRAME_C = 128;  // input channels of a frame
constexpr int FRAME_STRIDE = 1;  // frames from an image to the next
constexpr int FRAME_DILATION = 1;  // frames from a tap to the next
constexpr int FRAMES_BEFORE = 1;  // frames of padding in front

@@ // Derived values.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 27;  // slabs per tile: all taps of each 128 channels
PIXEL_RINGS=1 WEIGHT_RINGS=2 PIXEL_SLOTS=5 CHANNEL_TILES=1 TILES=66 BLOCKS=66
constexpr int WEIGHT_ROWS = 256;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 IMAGES_BEFORE=1 IMAGES_BEHIND=1 IMAGE_CLASSES=3 ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3
COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=222208 FOLD_THREADS=128

@@ 65b1778d in whole/wgmma-body-sm_90a.cu: static_assert(CONSUMERS == PIXEL_RINGS * WEIGHT_RINGS, "a consumer has one ring of each operand");
@@ 8+1
static_assert(SLABS == FRAME_TAPS * R * S * ((FRAME_C + SLAB_CHANNELS - 1) / SLAB_CHANNELS),
              "SLABS must cover the reduction");

// Returns the value of a lane.
__device__ __forceinline__ int from_lane(int value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}

// Loads the channels from `c` on of a run of pixels of volumes, as the tap at offset (tap_w, tap_h, tap_d)
// sees them.
__device__ __forceinline__ void load_im2col_5d(
    const TensorMap& map, void* to, Mbarrier& full, int c, int w, int h, int d, int n,
    unsigned short tap_w, unsigned short tap_h, unsigned short tap_d) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(shared_address(to)), "l"(&map),
        "r"(shared_address(&full)), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(tap_w), "h"(tap_h), "h"(tap_d)
        : "memory");
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 8+1
@@ 10+0
    int* weights;  // weights, with the rows of each 128 channels in the order of the lanes
    int* borders;  // offsets by class of pixels and output channel
    tile::TensorMap pixel_map;  // map of x
    tile::TensorMap weight_map;  // map of the weights
@@ 14+0
static_assert(SLAB_CHANNELS * sizeof(X) == SLAB && C * sizeof(X) % 16 == 0, "TMA copies 16 bytes of a pixel");

// The first channels of the next slab behind those of the last frame.
__device__ __forceinline__ int after_frames(int c) {
    return c + SLAB_CHANNELS < FRAME_C ? c + SLAB_CHANNELS : C;
}

// wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.u8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of 128 bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == false,
              "W and X must have the types of the instruction");
struct Operand {
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 9+1
        "wgmma.mma_async.sync.aligned.m64n192k32.s32.s8.u8 {"

@@ f7206a59 in whole/wgmma-body-sm_90a.cu: // Fetches the slabs of a ring, in the order of their multiplication: one thread, the producer. All taps of
@@ 9+1
        // The same channels of all frames come one after the other.
        for (int c = 0; c < C; c = c + FRAME_C < C ? c + FRAME_C : after_frames(c + FRAME_C - C)) {

// The loads of a ring of pixels. Channels past a frame's last, frames that the volume does not have, and
// pixels of volumes past the last, are zeros; they count as bytes too.
struct PixelLoads {
    const Arguments& args;
    int part, n, d, h, w;  // position of the filter's first tap for the first pixel of a tile

@@ df6fc935 in whole/wgmma-body-sm_90a.cu:     __device__ __forceinline__ void begin(const Tiles& tiles) {
@@ 2+2
        const int pixel = tiles.first_pixel() + part * TILE_N, image = pixel / (OUT_H * OUT_W);
        n = image / IMAGES;
        d = image % IMAGES * FRAME_STRIDE - FRAMES_BEFORE;
@@ 8+1
        tile::load_im2col_5d(args.pixel_map, to, full, c % FRAME_C, w, h, d, n,
                             s * DILATION_W, r * DILATION_H, c / FRAME_C * FRAME_DILATION);

// Returns the class of a pixel, or -1 if all of its taps are inside the volume.
__device__ __forceinline__ int border_of(int pixel) {
    const int image = pixel / (OUT_H * OUT_W) % IMAGES, row = pixel / OUT_W % OUT_H, column = pixel % OUT_W;
    const bool inside = image >= IMAGES_BEFORE && image < IMAGES - IMAGES_BEHIND && row >= ROWS_BEFORE &&
                        row < OUT_H - ROWS_BEHIND && column >= COLUMNS_BEFORE &&
                        column < OUT_W - COLUMNS_BEHIND;
    const int of_row = Images::class_of(image) * ROW_CLASSES + Rows::class_of(row);
    return inside ? -1 : of_row * COLUMN_CLASSES + Columns::class_of(column);
}

// The classes of a consumer's pixels: a lane computes that of every 32nd.
struct Classes {
    int offset[(TILE_N + 31) / 32];  // of the class's first channel, or -1 where all taps are inside

    __device__ __forceinline__ explicit Classes(int first_pixel) {
#pragma unroll
        for (int i = 0; i < (TILE_N + 31) / 32; ++i) {
            const int border = border_of(first_pixel + i * 32 + tile::lane());
            offset[i] = border < 0 ? -1 : border * K;
        }
    }
    __device__ __forceinline__ int of(int atom, int e) const {
        return tile::from_lane(offset[atom / 4], atom % 4 * 8 + tile::lane() % 4 * 2 + e);
    }
};

// The parameters of a lane's four channels for a pixel of the class whose offsets begin at `first`.
struct OfPixel {
    Channel channel[4];

    __device__ __forceinline__ OfPixel(const Arguments& args, const Channel (&inner)[4], int first, int k)
        : channel{inner[0], inner[1], inner[2], inner[3]} {
        if (first < 0) return;
        if constexpr (K % 4 == 0) {
            const auto offsets = tile::load_words<4>(args.borders + first + (k < K ? k : K - 4));
#pragma unroll
            for (int i = 0; i < 4; ++i) channel[i].offset = static_cast<int>(offsets.word[i]);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                channel[i].offset = tile::load(args.borders + first + (k + i < K ? k + i : K - 1));
            }
        }
    }
};

@@ 0d3f2b92 in whole/wgmma-body-sm_90a.cu: // Finishes and writes a consumer's sums: TILE_N pixels by TILE_M channels from these on. The parameters of a
@@ 10+0
    const Classes classes(first_pixel);
@@ 16+0
            const OfPixel of_pixel(args, channels, classes.of(atom, e), k);
@@ 20+1
                finished[i] = finish(inputs, of_pixel.channel[i]);
