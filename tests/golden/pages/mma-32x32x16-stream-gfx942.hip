// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    gfx942
// config    mma instruction=0 tile_m=32 tile_n=32 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=1 stream_k=1 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<304x1x1, 64, 8720 B>>> when: call

@@ // The config.
TILE_M=32 TILE_N=32 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=2

@@ // Derived values.
WARP_SIZE=64 THREADS=64 ATOM_M=32 ATOM_N=32 ATOM_K=16 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=196 TILES_N=4 TILES=784
constexpr int BLOCKS = 304;
X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=8720

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 8+0
    Sum* sums;  // sums of the tiles that several blocks share
    int* arrived;  // steps added so far to each of these tiles

// mfma_i32_32x32x16_i8: A is 32 channels, B is 32 pixels,
// each by 16 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 2, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 16;
constexpr int ATOM_ROWS = 32;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 6+1
    const Registers sum = __builtin_amdgcn_mfma_i32_32x32x16_i8(

@@ a56f6079 in pages/mma-phases-gfx1100.hip: // Persistent blocks, as many as are resident at a time, each process several tiles: the first steps of the
@@ 24+0
        // clang merges the two calls of finish_part, and no longer sees that these values are wave-uniform.
        tile_part.begin = tile::same_in_every_lane(tile_part.begin);
        tile_part.end = tile::same_in_every_lane(tile_part.end);
