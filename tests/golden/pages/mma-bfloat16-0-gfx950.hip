// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=bfloat16:w_type=bfloat16:out_type=bfloat16:
//     per_channel:bias=float32:activation=relu
//
// target    gfx950
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 256, 16896 B>>> when: call

// mfma_f32_32x32x16_bf16: A is 32 channels, B is 32 pixels,
// each by 16 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 4, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 16;
constexpr int ATOM_ROWS = 32;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    typedef __bf16 Operand
        __attribute__((ext_vector_type(4 * A_REGISTERS / sizeof(__bf16))));
    const Registers sum = __builtin_amdgcn_mfma_f32_32x32x16_bf16(
