// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    gfx1201
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=128 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=1
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 128, 33536 B>>> when: call

@@ // The config.
TILE_M=64 TILE_N=64 TILE_K=128 WARP_M=32 WARP_N=32 PIPELINE_STAGES=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=32 STEPS=9 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=33536
FOLD_THREADS=128

// wmma 16x16x16 of RDNA4: A is 16 channels, B is 16 pixels, each by 16 bytes of the reduction, split between
// the halves of the wave; each half holds eight consecutive channels of D.
[[maybe_unused]] constexpr bool A_SIGNED = W_SIGNED, B_SIGNED = X_SIGNED;
constexpr int A_REGISTERS = 2, B_REGISTERS = A_REGISTERS, D_REGISTERS = 8;
constexpr int ATOM_ROWS = 16;

@@ 4a7c6258 in pages/mma-phases-gfx1100.hip: // Computes D += A * B, by one wave.
@@ 6+1
    const Registers sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(

// A lane holds eight channels of one pixel.
constexpr int LANE_PIXELS = 1, LANE_CHANNELS = 8;
__device__ __forceinline__ int pixel_of_lane(int) { return tile::lane() % 16; }
__device__ __forceinline__ int channel_lane() { return tile::lane() / 16; }
constexpr __device__ int register_of(int, int channel) { return channel; }
// Return the half of the wave that holds a channel of the atom, and the channel's index within the lane.
__device__ __forceinline__ int lane_of_channel(unsigned channel) { return channel / 8; }
__device__ __forceinline__ int index_of_channel(unsigned channel) { return channel % 8; }

@@ c4617212 in whole/mma-16x16x32-staged-gfx942.hip:     // Loads the channel parameters of the tile.
@@ 10+1
            channel_parameters.scale[n] = tile::load(args.scale + k);
            channel_parameters.bias[n] = tile::load(args.bias + k);

@@ 52dce31e in whole/mma-16x16x32-staged-gfx942.hip: // Writes the outputs to shared memory, and from there to device memory in whole rows of 16-byte vectors.
@@ 9+0
        ResidualVector residuals[PIXELS_OF_LANE];
#pragma unroll
        for (int i = 0; i < PIXELS_OF_LANE; ++i) {
            const int pixel = tile_part.pixel_tile + pixel_of(i);
            residuals[i] = residual_at(args, pixel, tile_part.k_tile + n, tile_part.k_end);
        }
@@ 12+1
            const FinishedVector outputs = finish_vector(sums_of(acc, i, v), residuals[i], channels);
