// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    cpu.sm_90a
// config    wgmma consumers=1 split_pixels=0 pixels=48 weight_slots=4 lag=0
// launch    conv2d_repack_weights<<<288x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<4x1x1, 256, 103424 B>>> when: call

@@ // The config.
constexpr int CONSUMERS = 1;  // warpgroups that multiply
constexpr int TILE_N = 48;  // output pixels per consumer
WEIGHT_SLOTS=4 LAG=0

@@ // Derived values.
WARP_SIZE=32 THREADS=256 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
PIXEL_RINGS=1 WEIGHT_RINGS=1 PIXEL_SLOTS=6 CHANNEL_TILES=1 TILES=131 BLOCKS=4
constexpr int WEIGHT_ROWS = 128;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 SMEM_BYTES=103424

using X = unsigned char;
using W = unsigned char;
using Sum = float;
using Output = unsigned short;

constexpr bool PIXEL_ROWS = false;  // A is of pixels, B of weights
constexpr bool A_SIGNED = PIXEL_ROWS ? X_SIGNED : W_SIGNED, B_SIGNED = PIXEL_ROWS ? W_SIGNED : X_SIGNED;
// The hardware states no order of additions: a kernel's sums must be exact in any.
__device__ __forceinline__ Sum add_products(Sum sum, unsigned a, unsigned b) {
    using A = tile::E4m3s;
    using B = tile::E4m3s;
    for (int i = 0; i < A::COUNT; ++i) sum += A::of(a, i) * B::of(b, i);
    return sum;
}

@@ 0dbfaf73 in shared.cpp: // Returns what the instruction keeps of a sum: the lowest LOST_BITS bits of its fraction are cut off.
@@ 2+1
constexpr unsigned LOST_BITS = 10;
@@ 10+0
extern "C" void qconv_cpu_barrier_of_team(int team, int threads, int line);

@@ f2a3c556 in pages/stem-pool-odd-cpu.sm_90a.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+2
extern "C" void conv2d_wgmma_entry(const void* args) {
    conv2d_wgmma(*static_cast<const Arguments*>(args));
