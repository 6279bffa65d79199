// conv2d:n=8:h=28:w=28:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=float16:w_type=float16:out_type=float16:
//     per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_repack_weights<<<144x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<64x1x1, 512, 218112 B>>> when: call

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
CHANNEL_BYTES=2 PART_C=64 OWN_ROWS=14 TAP_BYTES=128 WINDOW_H=16 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=128 LAST_ROW=128 SLABS=1 SLOTS=7 RELEASES=1 TILES_DOWN=2 TILES_ACROSS=4 CHANNEL_TILES=1
TILES=64 BLOCKS=64 WEIGHT_ROWS=64
constexpr int VECTOR_K = 2;  // neighbouring channels that a lane reads or writes at once
SMEM_BYTES=218112

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
@@ 11+1

// wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 2+1
#define SUMS_OF_ATOM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
@@ 8+2
        "setp.ne.b32 adds, %58, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 {"
@@ 23+13
        "%52, %53, %54, %55}, "
        "%56, "
        "%57, adds, 1, 1, 0, 0;\n"
@@ 50+11
          SUMS_OF_ATOM(13)
