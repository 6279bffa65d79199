// conv2d:n=1:h=28:w=28:c=80:k=21:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=uint8:out_type=float16:x_zero_point:
//     bias=float32:activation=relu
//
// target    cpu.sm_90a
// config    halo rows=2 consumers=2 channels=64
// launch    conv2d_fold<<<21x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<90x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<4x1x1, 384, 117760 B>>> when: call

@@ // The config.
TILE_H=2 CONSUMERS=2
constexpr int TILE_M = 64;  // output channels of a tile
SPLIT=1

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 16;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=80 OWN_ROWS=2 TAP_BYTES=80 WINDOW_H=4 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=128 LAST_ROW=96 SLABS=1 SLOTS=8 RELEASES=1 TILES_DOWN=14 TILES_ACROSS=4 CHANNEL_TILES=1
TILES=56 BLOCKS=4 WEIGHT_ROWS=64
constexpr int VECTOR_K = 1;  // neighbouring channels that a lane reads or writes at once
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=117760
FOLD_THREADS=128

// Loads the box at these coordinates, innermost first: one thread. The innermost coordinate must be a
// multiple of 16 bytes. `mbarrier` must expect all bytes of the box, including the zeros outside the array.
__device__ __forceinline__ void load_tile_4d(
    const TensorMap& map, void* to, Mbarrier& mbarrier,
    int c0, int c1, int c2, int c3,
    int line = __builtin_LINE()) {
    const int coordinates[] = {c0, c1, c2, c3};
    const unsigned short* const offsets = nullptr;
    qconv_cpu_load_tensor(to, &map, coordinates, offsets, &mbarrier, line);
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    int* weights;  // the weights, with the rows of each 16 channels in the order of the lanes
    int* borders;  // offsets by class of pixels and output channel
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of the weights
    float multiplier;  // x_scale * w_scale

constexpr int ATOMS = 2;  // of eight columns each, in an instruction
constexpr int STEPS = ((SLABS - 1) * ROW + LAST_ROW) / 32;  // instructions per tap and 64 rows of the product
// Instructions per tile.
[[maybe_unused]] constexpr int PRODUCTS = R * S * STEPS * (TILE_M * TILE_N / (64 * 8 * ATOMS));

// wgmma on the CPU device: 64 output channels by TILE_N pixels, or 64 pixels by TILE_M output channels, and
// 32 bytes of the reduction per product. Each lane reads the factors of its own sums, where the swizzle has
// put them; if warps gather the windows, as the async proxy sees them.
constexpr bool WARPS_GATHER = false;
struct Operand {
    const unsigned char* rows;
    int group;  // byte distance between groups of eight rows
    long to_view;  // from an address to the async proxy's view of it, which matters if warps gather

    Operand() = default;
    __device__ __forceinline__ Operand(const void* rows, int group)
        : rows(static_cast<const unsigned char*>(rows)), group(group),
          to_view(WARPS_GATHER ? static_cast<const char*>(qconv_cpu_async_proxy_view(rows)) -
                                     static_cast<const char*>(rows)
                               : 0) {}
    __device__ __forceinline__ Operand advance_bytes(int bytes) const { return Operand(rows + bytes, group); }
    // The swizzle XORs the chunk index with bits of the address, as the hardware does.
    __device__ __forceinline__ unsigned word(int row, int i) const {
        const unsigned char* const place = rows + row / 8 * group + row % 8 * ROW + i * 4;
        const unsigned long at = reinterpret_cast<unsigned long>(place);
        const unsigned long exchanged = at ^ (at >> 7) % (ROW / 16) * 16;
        return reinterpret_cast<const tile::Words<1>*>(exchanged + to_view)->word[0];
    }
};

@@ 20bbb4d9 in whole/halo-body-sm_90a.cu: struct Shared {
@@ 4+1
    OffsetsOfClasses offsets;

@@ 249b6c2b in pages/depthwise-float16-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+0
extern "C" void conv2d_fold_borders_entry(const void* args) {
    conv2d_fold_borders(*static_cast<const Arguments*>(args));
}
@@ 8+2
extern "C" void conv2d_halo_entry(const void* args) {
    conv2d_halo(*static_cast<const Arguments*>(args));
