// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu
//
// target    gfx950
// config    mma instruction=1 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 256, 16896 B>>> when: call

// mfma_f32_16x16x32_fp8_fp8: A is 16 channels, B is 16 pixels,
// each by 32 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 2, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 4;
constexpr int ATOM_ROWS = 16;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 6+1
    const Registers sum = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(
