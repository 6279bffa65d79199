// conv2d:n=8:h=28:w=28:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu:residual=float8_e4m3fn:
//     residual_add=dequantized
//
// target    sm_90a
// config    halo rows=28 consumers=2 channels=64
// launch    conv2d_repack_weights<<<72x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<32x1x1, 384, 201728 B>>> when: call

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 224;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=64 OWN_ROWS=28 TAP_BYTES=64 WINDOW_H=30 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=64 LAST_ROW=64 SLABS=1 SLOTS=4 RELEASES=1 TILES_DOWN=1 TILES_ACROSS=4 CHANNEL_TILES=1
TILES=32 BLOCKS=32 WEIGHT_ROWS=64 SMEM_BYTES=201728

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const Residual* residual;  // added before the activation, NHWK
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale / inner_scale
@@ 12+0
    tile::TensorMap residual_map;  // of the residual
    float inner_scale;  // the scale of its own output
    float residual_scale;  // the scale of the residual
    float y_scale;  // the output scale

// wgmma.mma_async.sync.aligned.m64n224k32.f32.e4m3.e4m3: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 084af698 in whole/halo-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 2+1
#define SUMS_OF_ATOM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
@@ 9+1
        "wgmma.mma_async.sync.aligned.m64n224k32.f32.e4m3.e4m3 {"
@@ 39+1
        "%113, adds, 1, 1;\n"

@@ 691d3ae9 in pages/halo-residual-borders-sm_90a.cu: // The residuals of a fragment, as they lie in shared memory.
@@ 5+1
        return {sum, tile::byte_as_int<Residual>(word[i / 4], i % 4)};
