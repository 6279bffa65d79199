// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu
//
// target    gfx1201
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=16896

@@ 4a7c6258 in pages/mma-phases-gfx1100.hip: // Computes D += A * B, by one wave.
@@ 5+4
    typedef int Operand
        __attribute__((ext_vector_type(4 * A_REGISTERS / sizeof(int))));
    const Registers sum = __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(
        __builtin_bit_cast(Operand, a), __builtin_bit_cast(Operand, b), __builtin_bit_cast(Registers, d));
