// conv2d:n=1:h=28:w=28:c=80:k=21:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=uint8:out_type=float16:x_zero_point:
//     bias=float32:activation=relu
//
// target    cpu.sm_90a
// config    wgmma consumers=1 split_pixels=0 pixels=48 weight_slots=3 lag=0
// launch    conv2d_fold<<<21x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<180x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<4x1x1, 256, 80896 B>>> when: call

@@ // The config.
constexpr int CONSUMERS = 1;  // warpgroups that multiply
constexpr int TILE_N = 48;  // output pixels per consumer
WEIGHT_SLOTS=3 LAG=0

@@ // Derived values.
WARP_SIZE=32 THREADS=256 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
LAST_SLAB=96 PIXEL_RINGS=1 WEIGHT_RINGS=1 PIXEL_SLOTS=5 CHANNEL_TILES=1 TILES=17 BLOCKS=4
constexpr int WEIGHT_ROWS = 128;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=1 ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3
SMEM_BYTES=80896 FOLD_THREADS=128

// Returns the value of a lane.
__device__ __forceinline__ int from_lane(int value, int lane, int line = __builtin_LINE()) {
    const void* const deposits = qconv_cpu_warp_exchange(&value, sizeof value, line);
    int other;
    __builtin_memcpy(&other, static_cast<const char*>(deposits) + 64 * lane, sizeof other);
    return other;
}

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
@@ 8+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
@@ 14+5
    float multiplier;  // x_scale * w_scale
@@ 22+0
static_assert(LAST_SLAB % 32 == 0 && C % SLAB_CHANNELS * sizeof(X) <= LAST_SLAB, "only zeros are left out");

// wgmma on the CPU device: 64 output channels by TILE_N pixels, 32 bytes of the reduction per product. Each
// lane reads the factors of its own sums, where TMA's swizzle has put them.
struct Operand {
    const unsigned char* rows;

    Operand() = default;
    __device__ __forceinline__ explicit Operand(const void* rows)
        : rows(static_cast<const unsigned char*>(rows)) {}
    __device__ __forceinline__ Operand behind(int bytes) const { return Operand(rows + bytes); }
    // The swizzle XORs the chunk index with bits of the address, as the hardware does.
    __device__ __forceinline__ unsigned word(int row, int i) const {
        const unsigned long at = reinterpret_cast<unsigned long>(rows + row * 128 + i * 4);
        return reinterpret_cast<const tile::Words<1>*>(at ^ (at >> 7) % 8 * 16)->word[0];
    }
};

// A consumer's outstanding products. They read their factors and write their sums as late as the hardware
// may: when they are awaited.
struct Products {
    static constexpr int MOST = 16;  // products of two slabs
    int group = 0, first = 0, queued = 0;
    Product queue[MOST];
};

// Issues the products of a slab: its first BYTES bytes, which exclude the zeros past the last channel.
template <int BYTES>
__device__ __forceinline__ void multiply_slab(
    Products& products, const Operand& low, const Operand& high, const Operand& columns,
    Sum (&sums)[2][ATOMS][4], bool adds) {
    begin_products();
#pragma unroll
    for (int k = 0; k < BYTES; k += 32) {
        multiply(products, low.behind(k), columns.behind(k), sums[0], adds || k > 0);
        multiply(products, high.behind(k), columns.behind(k), sums[1], adds || k > 0);
    }
    commit_products(products);
}

@@ 086f6ea2 in whole/wgmma-body-sm_90a.cu: // Multiplies the slabs of a consumer's tiles: one warpgroup. It releases a slab's slots once it has issued
@@ 26+5
            if (slab < SLABS - R * S) {
                multiply_slab<SLAB>(products, low, high, columns, sums, slab > 0);
            } else {
                multiply_slab<LAST_SLAB>(products, low, high, columns, sums, slab > 0);
@@ 32+1

@@ 249b6c2b in pages/depthwise-float16-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+0
extern "C" void conv2d_fold_borders_entry(const void* args) {
    conv2d_fold_borders(*static_cast<const Arguments*>(args));
}
@@ 8+2
extern "C" void conv2d_wgmma_entry(const void* args) {
    conv2d_wgmma(*static_cast<const Arguments*>(args));
