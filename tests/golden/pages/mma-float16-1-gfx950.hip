// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float16:w_type=float16:out_type=float16:
//     per_channel:bias=float32:activation=relu
//
// target    gfx950
// config    mma instruction=1 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 256, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=64 THREADS=256 ATOM_M=16 ATOM_N=16 ATOM_K=64 K_BLOCK=64 STEPS=36 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 X_SIZE=1605632 W_SIZE=294912 SMEM_BYTES=16896

// mfma_f32_16x16x32_f16: A is 16 channels, B is 16 pixels,
// each by 32 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 4, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 4;
constexpr int ATOM_ROWS = 16;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    typedef _Float16 Operand
        __attribute__((ext_vector_type(4 * A_REGISTERS / sizeof(_Float16))));
    const Registers sum = __builtin_amdgcn_mfma_f32_16x16x32_f16(
