// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float16:w_type=float16:out_type=float16:
//     per_channel:bias=float32:activation=relu
//
// target    gfx908
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 256, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=64 THREADS=256 ATOM_M=32 ATOM_N=32 ATOM_K=16 K_BLOCK=32 STEPS=36 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 X_SIZE=1605632 W_SIZE=294912 SMEM_BYTES=16896

// mfma_f32_32x32x8f16: A is 32 channels, B is 32 pixels,
// each by 8 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 2, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 16;
constexpr int ATOM_ROWS = 32;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    typedef _Float16 Operand
        __attribute__((ext_vector_type(4 * A_REGISTERS / sizeof(_Float16))));
    const Registers sum = __builtin_amdgcn_mfma_f32_32x32x8f16(

@@ c4617212 in whole/mma-16x16x32-staged-gfx942.hip:     // Loads the channel parameters of the tile.
@@ 9+1
            channel_parameters.bias[n] = tile::load(args.bias + k);

@@ 1262b0e6 in whole/mma-body-sm_90a.cu: // Multiplies one tile over the block's part of the reduction, after `loader.fill`. PIPELINE_STAGES - 1 steps
@@ 10+3
@@ 16+0
    loader.begin<1>(pipeline, 0);
@@ 24+1
@@ 26+2
                loader.end(pipeline);
@@ 29+0
                loader.begin<1>(pipeline, 0);
