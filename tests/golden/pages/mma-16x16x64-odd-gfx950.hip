// conv2d:n=2:h=9:w=5:c=21:k=33:r=2:s=5:stride=1,2:dilation=2,1:pad=0,2,1,2:groups=3:x_type=int8:w_type=int8:
//     out_type=float16:x_zero_point:bias=float32:activation=relu
//
// target    gfx950
// config    mma instruction=1 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<33x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<3x1x1, 256, 16896 B>>> when: call

@@ // The problem.
IN_H=9 IN_W=5 C=21 C_GROUP=7 OUT_H=8 OUT_W=3 K=33 K_GROUP=11 R=2 S=5 STRIDE_H=1 STRIDE_W=2 DILATION_H=2
DILATION_W=1 PAD_TOP=0 PAD_LEFT=2 PADDED=true PIXELS=48 REDUCTION=70 X_SIGNED=true W_SIGNED=true

@@ // Derived values.
WARP_SIZE=64 THREADS=256 ATOM_M=16 ATOM_N=16 ATOM_K=64 K_BLOCK=64 STEPS=2 HAS_REDUCTION_REMAINDER=true
TILES_M=1 TILES_N=1 X_BYTES=1 W_BYTES=1 VECTOR_N=1 X_SIZE=1890 W_SIZE=2310 SMEM_BYTES=16896 FOLD_THREADS=128

// mfma_i32_16x16x64_i8: A is 16 channels, B is 16 pixels,
// each by 64 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 4, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 4;
constexpr int ATOM_ROWS = 16;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    typedef int Operand __attribute__((ext_vector_type(4)));
    const Registers sum = __builtin_amdgcn_mfma_i32_16x16x64_i8(

@@ c3c71023 in whole/mma-16x16x32-staged-gfx942.hip:     __device__ __forceinline__ void fetch_x([[maybe_unused]] unsigned bytes) {
@@ 2+2
@@ 6+5
            x.words[i].word[0] = bytes == 0 ? 0u : gather_x(args, rows.offset[i], rows.inside[i], tap);

@@ 00e0b2a4 in whole/mma-16x16x32-staged-gfx942.hip:     __device__ __forceinline__ void fetch_w([[maybe_unused]] unsigned bytes) {
@@ 5+5
            w.words[i] = {};
            if (bytes != 0 && WVectors::exists(i)) w.words[i].word[0] = gather_w(args.w, begin_w[i], index);
