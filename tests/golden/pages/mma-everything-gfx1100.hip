// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    gfx1100
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 128, 17152 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=16 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=17152
FOLD_THREADS=128

@@ a61b3302 in whole/mma-16x16x32-staged-gfx942.hip: // Loads words at `base + offset + common` from a buffer of `bytes`; outside, the hardware returns zeros.
@@ 7+1
        const_cast<void*>(base), 0, __builtin_amdgcn_readfirstlane(bytes), 822099968);

// wmma 16x16x16 of RDNA3: A is 16 channels, B is 16 pixels, each by 16 bytes of the reduction. Both halves of
// the wave hold all of A and B, and the even and odd channels of D.
[[maybe_unused]] constexpr bool A_SIGNED = W_SIGNED, B_SIGNED = X_SIGNED;
constexpr int A_REGISTERS = 4, B_REGISTERS = 4, D_REGISTERS = 8;
constexpr int ATOM_ROWS = 16;

// Computes D += A * B, by one wave.
__device__ __forceinline__ void multiply_add(
    const unsigned (&a)[A_REGISTERS], const unsigned (&b)[B_REGISTERS], Sum (&d)[D_REGISTERS]) {
    typedef int Operand __attribute__((ext_vector_type(A_REGISTERS)));
    typedef Sum Registers __attribute__((ext_vector_type(D_REGISTERS)));
    const Registers sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(
        A_SIGNED, __builtin_bit_cast(Operand, a), B_SIGNED, __builtin_bit_cast(Operand, b),
        __builtin_bit_cast(Registers, d), false);
#pragma unroll
    for (int i = 0; i < D_REGISTERS; ++i) d[i] = sum[i];
}

// Reads all sums after a loop of products, while every lane is active. clang does not know that wmma needs
// every lane (llvm-project issues 165602 and 178314): where only a branch reads a sum, such as a store's
// guard, it moves the instruction into the branch, and the lanes that skip the branch hold garbage.
template <class Sums>
__device__ __forceinline__ void keep_converged(Sums& sums) {
    typedef Sum Registers __attribute__((ext_vector_type(D_REGISTERS)));
    Sum (*const tiles)[D_REGISTERS] = reinterpret_cast<Sum (*)[D_REGISTERS]>(&sums);
#pragma unroll
    for (unsigned i = 0; i < sizeof(Sums) / sizeof(*tiles); ++i) {
        Registers tile = __builtin_bit_cast(Registers, tiles[i]);
        asm volatile("" : "+v"(tile));
#pragma unroll
        for (int j = 0; j < D_REGISTERS; ++j) tiles[i][j] = tile[j];
    }
}

// A lane holds every second channel of one pixel.
constexpr int LANE_PIXELS = 1, LANE_CHANNELS = 8;
__device__ __forceinline__ int pixel_of_lane(int) { return tile::lane() % 16; }
__device__ __forceinline__ int channel_lane() { return tile::lane() / 16; }
constexpr __device__ int register_of(int, int channel) { return channel; }
// Return the half of the wave that holds a channel of the atom, and the channel's index within the lane.
__device__ __forceinline__ int lane_of_channel(unsigned channel) { return channel % 2; }
__device__ __forceinline__ int index_of_channel(unsigned channel) { return channel / 2; }

@@ a43c6b2f in whole/mma-16x16x32-staged-gfx942.hip: // Multiplies one tile over the block's part of the reduction, after `loader.fill`. PIPELINE_STAGES - 1 steps
@@ 22+0
    keep_converged(acc);
