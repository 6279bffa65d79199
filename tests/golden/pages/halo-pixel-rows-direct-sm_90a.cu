// conv2d:n=8:h=28:w=28:c=64:k=36:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=8 consumers=3 channels=48
// launch    conv2d_repack_weights<<<54x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<128x1x1, 512, 86016 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=64 C_GROUP=64 OUT_H=28 OUT_W=28 K=36 K_GROUP=36 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=576 X_SIGNED=true W_SIGNED=true

@@ // The config.
TILE_H=8 CONSUMERS=3
constexpr int TILE_M = 48;  // output channels of a tile
SPLIT=1

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 64;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=64 OWN_ROWS=8 TAP_BYTES=64 WINDOW_H=10 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=64 LAST_ROW=64 SLABS=1 SLOTS=8 RELEASES=1 TILES_DOWN=4 TILES_ACROSS=4 CHANNEL_TILES=1
TILES=128 BLOCKS=128 WEIGHT_ROWS=48
constexpr int VECTOR_K = 4;  // neighbouring channels that a lane reads or writes at once
SMEM_BYTES=86016

constexpr int ATOMS = 6;  // of eight columns each, in an instruction
constexpr int STEPS = ((SLABS - 1) * ROW + LAST_ROW) / 32;  // instructions per tap and 64 rows of the product
// Instructions per tile.
[[maybe_unused]] constexpr int PRODUCTS = R * S * STEPS * (TILE_M * TILE_N / (64 * 8 * ATOMS));

// wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8: 64 pixels by TILE_M output channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %26, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8 {"
@@ 15+21
        "%20, %21, %22, %23}, "
        "%24, "
        "%25, adds;\n"
@@ 42+19
          SUMS_OF_ATOM(5)
