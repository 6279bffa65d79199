// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    gfx908
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 256, 17152 B>>> when: call

@@ // Derived values.
WARP_SIZE=64 THREADS=256 ATOM_M=32 ATOM_N=32 ATOM_K=8 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=17152
FOLD_THREADS=128

// mfma_i32_32x32x8i8: A is 32 channels, B is 32 pixels,
// each by 8 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 1, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 16;
constexpr int ATOM_ROWS = 32;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    using Operand = int;
    const Registers sum = __builtin_amdgcn_mfma_i32_32x32x8i8(

@@ 37f5a3e5 in whole/mma-16x16x32-staged-gfx942.hip: // A lane holds one pixel. Its channels come in runs of four; the groups of lanes alternate down the atom.
@@ 2+1
constexpr int LANE_PIXELS = 1, LANE_CHANNELS = D_REGISTERS, CHANNEL_LANES = 2;

@@ 1bd1d674 in whole/mma-16x16x32-staged-gfx942.hip: // Loads the tiles of successive steps into shared memory, through registers. Zeros are read from outside the
@@ 16+0
    unsigned padding;  // bit mask of the vectors of x that are padding

@@ c4617212 in whole/mma-16x16x32-staged-gfx942.hip:     // Loads the channel parameters of the tile.
@@ 10+0
            channel_parameters.w_zero[n] = tile::load(args.w_zero + k);

    __device__ __forceinline__ void put(Pipeline& pipeline) {
        const unsigned filling = padding_word(args);
#pragma unroll
        for (int i = 0; i < XVectors::COUNT; ++i) {
#pragma unroll
            for (unsigned& word : x.words[i].word) word = (padding >> i & 1) != 0 ? filling : word;
        }
        x.put(pipeline.x[stage]);
        w.put(pipeline.w[stage]);
        stage = 1 - stage;
    }

@@ c3c71023 in whole/mma-16x16x32-staged-gfx942.hip:     __device__ __forceinline__ void fetch_x([[maybe_unused]] unsigned bytes) {
@@ 4+0
        padding = 0;
@@ 7+0
            padding |= static_cast<unsigned>(!inside && tap.exists()) << i;
