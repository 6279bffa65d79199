// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float16:w_type=float16:out_type=float16:
//     per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    wgmma consumers=2 split_pixels=1 pixels=128 weight_slots=4 lag=1
// launch    conv2d_repack_weights<<<576x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<25x1x1, 384, 230400 B>>> when: call

@@ // The config.
constexpr int CONSUMERS = 2;  // warpgroups that multiply
constexpr int TILE_N = 128;  // output pixels per consumer
WEIGHT_SLOTS=4 LAG=1

@@ // Derived values.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=64
constexpr int SLABS = 18;  // slabs per tile: all taps of each 64 channels
PIXEL_RINGS=2 WEIGHT_RINGS=1 PIXEL_SLOTS=5 CHANNEL_TILES=1 TILES=25 BLOCKS=25
constexpr int WEIGHT_ROWS = 128;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 SMEM_BYTES=230400

// wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of 128 bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 2+1
#define SUMS_OF_ATOM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
@@ 8+2
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
@@ 25+11
        "%60, %61, %62, %63}, "
        "%64, "
        "%65, adds, 1, 1, 0, 0;\n"
@@ 52+9
          SUMS_OF_ATOM(15)
