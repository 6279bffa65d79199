// conv2d:n=16:h=28:w=28:c=192:k=64:r=3:s=3:pad=1,1,1,1:frames=8,8,3,1,1,1:x_type=uint8:w_type=int8:
//     out_type=uint8:per_channel:x_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_fold<<<64x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<14x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<216x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<128x1x1, 512, 231424 B>>> when: call

@@ bdd82efe in whole/halo-body-sm_90a.cu: // The problem.
@@ 4+2
constexpr int C = 192;
constexpr int C_GROUP = 192;  // input channels per group
@@ 19+3
constexpr int PIXELS = 12544;  // output pixels of all images
constexpr int REDUCTION = 1728;  // products per output
constexpr bool X_SIGNED = false;
@@ 23+0
constexpr int IMAGES = 8;  // of a volume
[[maybe_unused]] constexpr int FRAMES = 8;  // of a volume
[[maybe_unused]] constexpr int FRAME_TAPS = 3;  // frames whose channels are those of an image
constexpr int FRAME_C = 64;  // input channels of a frame
constexpr int FRAME_STRIDE = 1;  // frames from an image to the next
constexpr int FRAME_DILATION = 1;  // frames from a tap to the next
constexpr int FRAMES_BEFORE = 1;  // frames of padding in front

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=192 OWN_ROWS=14 TAP_BYTES=192 WINDOW_H=16 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=64 LAST_ROW=64 SLABS=3 FRAME_SLABS=1 SLOTS=3 RELEASES=1 TILES_DOWN=2 TILES_ACROSS=4
CHANNEL_TILES=1 TILES=128 BLOCKS=128 WEIGHT_ROWS=64 IMAGES_BEFORE=1 IMAGES_BEHIND=1 IMAGE_CLASSES=3
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=231424
FOLD_THREADS=128

@@ 324239fe in whole/halo-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer must be one more warpgroup");
@@ 3+2
static_assert(FRAME_C * CHANNEL_BYTES <= (FRAME_SLABS - 1) * ROW + LAST_ROW &&
              LAST_ROW % 32 == 0 && LAST_ROW <= ROW && (FRAME_SLABS == 1 || ROW == 128),

// Loads the box at these coordinates, innermost first: one thread. The innermost coordinate must be a
// multiple of 16 bytes. `mbarrier` must expect all bytes of the box, including the zeros outside the array.
__device__ __forceinline__ void load_tile_5d(
    const TensorMap& map, void* to, Mbarrier& mbarrier,
    int c0, int c1, int c2, int c3, int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(&mbarrier)),
        "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 8+1
@@ 10+0
    int* weights;  // the weights, with the rows of each 16 channels in the order of the lanes
    int* borders;  // offsets by class of pixels and output channel
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of the weights
    tile::TensorMap output_map;  // of y

// wgmma.mma_async.sync.aligned.m64n112k32.s32.s8.u8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == false,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %58, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n112k32.s32.s8.u8 {"
@@ 23+13
        "%52, %53, %54, %55}, "
        "%56, "
        "%57, adds;\n"
@@ 50+11
          SUMS_OF_ATOM(13)

// The input channels of a slab begin here. Every frame of an image has FRAME_SLABS slabs.
__device__ __forceinline__ int first_of_slab(int slab) {
    return slab / FRAME_SLABS * FRAME_C + slab % FRAME_SLABS * (ROW / CHANNEL_BYTES);
}

// The offsets of a block's channels for each class of pixels.
struct OffsetsOfClasses {
    alignas(16) unsigned offset[CLASSES][TILE_M];

    // By all threads. Channels past the last get those of others.
    __device__ __forceinline__ void load(const Arguments& args) {
        for (int i = tile::thread(); i < CLASSES * TILE_M; i += THREADS) {
            const int k = first_channel() + i % TILE_M;
            const int* const of_class = args.borders + i / TILE_M * K;
            const int found = tile::load(of_class + (k < K ? k : K - 1));
            offset[i / TILE_M][i % TILE_M] = static_cast<unsigned>(found);
        }
    }
};

// The class of a tile's pixels in rows and columns of the first classes.
__device__ __forceinline__ int first_class(const Tiles& tiles) {
    return Images::class_of(tiles.image() % IMAGES) * (ROW_CLASSES * COLUMN_CLASSES);
}

@@ 20bbb4d9 in whole/halo-body-sm_90a.cu: struct Shared {
@@ 5+0
    OffsetsOfClasses offsets;

@@ 4ff1222e in whole/halo-body-sm_90a.cu: // Issues the products of a tile. Every tap reads its pixels in place, in the window that has them.
@@ 19+1
                if (slab % FRAME_SLABS == FRAME_SLABS - 1 && c >= LAST_ROW) continue;  // there are only zeros

// The channel parameters of a lane. They stay in registers: a block keeps its channels. Their offsets are
// those of the classes of pixels, in shared memory.
struct Channels {
    struct Group {
        Channel channel[ProductRows::CHANNELS];
        // Offsets of these channels by column of a fragment, for pixels in rows of the first class.
        const unsigned* offsets[1 + ProductRows::ACROSS];

        __device__ __forceinline__ Channel& operator[](int h) { return channel[h]; }
        // The parameters of the channels of a pixel.
        __device__ __forceinline__ Group at(int row, int column) const {
            Group found = *this;
            const int first = Rows::class_of(row) * (COLUMN_CLASSES * TILE_M);
            const auto words = tile::load_shared<ProductRows::CHANNELS>(offsets[column] + first);
#pragma unroll
            for (int h = 0; h < ProductRows::CHANNELS; ++h) {
                found[h].offset = static_cast<int>(words.word[h]);
            }
            return found;
        }
    };
    Group channel[ProductRows::GROUPS];

@@ 24cecf6a in whole/halo-body-sm_90a.cu:     __device__ __forceinline__ explicit Channels(const Arguments& args) {
@@ 11+1

    // Selects the offsets of the columns of a tile.
    __device__ __forceinline__ void see(const OffsetsOfClasses& classes, const Tiles& tiles) {
        const int first = ProductRows::fragment(tiles, 0, 0).column;
#pragma unroll
        for (int e = 0; e <= ProductRows::ACROSS; ++e) {
            const auto& offsets = classes.offset[first_class(tiles) + Columns::class_of(first + e)];
#pragma unroll
            for (int group = 0; group < ProductRows::GROUPS; ++group) {
                channel[group].offsets[e] = offsets + (ProductRows::channel(group) - first_channel());
            }
        }
    }
};

// Makes the outputs of a fragment: the channels of its first pixel, then those of its second.
__device__ __forceinline__ void finish_fragment(
    const Arguments&, const Sum (*sums)[4], const Residuals& residuals, const Channels::Group& channels,
    const Fragment& fragment, Finished (&finished)[2 * ProductRows::CHANNELS]) {
#pragma unroll
    for (int i = 0; i < 2 * ProductRows::CHANNELS; ++i) {
        const int e = i / ProductRows::CHANNELS, h = i % ProductRows::CHANNELS;
        Channels::Group of_pixel =
            channels.at(fragment.row + e * ProductRows::DOWN, e * ProductRows::ACROSS);
        finished[i] = finish(residuals.inputs(ProductRows::sum(sums, e, h), i), of_pixel[h]);
    }
}

@@ a855e279 in whole/halo-body-sm_90a.cu: // A consumer, a warpgroup, computes every CONSUMERS-th tile. It issues the products of a tile when the
@@ 35+0
        channels.see(shared.offsets, tiles);

@@ 0ee00c39 in whole/halo-body-sm_90a.cu: // One thread asks TMA for the weights of all taps, which stay in shared memory. They do not depend on the
@@ 7+1
        const int channel = first_of_slab(slab % SLABS);

@@ 5961f492 in whole/halo-body-sm_90a.cu: // One thread asks TMA for the weights, and for one window after the other. Pixels outside of the image are
@@ 12+1
        const int column = tiles.input_column(), row = tiles.input_row(), volume = tiles.image() / IMAGES;
        const int first = tiles.image() % IMAGES * FRAME_STRIDE - FRAMES_BEFORE;
@@ 15+2
            const int channel = slab % FRAME_SLABS * (ROW / CHANNEL_BYTES);
            tile::load_tile_5d(args.pixel_map, &window.slab[slab], full, channel, column, row,
                            first + slab / FRAME_SLABS * FRAME_DILATION, volume);

@@ 259a56a6 in whole/halo-body-sm_90a.cu: extern "C" __global__ void __launch_bounds__(THREADS, 1)
@@ 6+0
    shared.offsets.load(args);
