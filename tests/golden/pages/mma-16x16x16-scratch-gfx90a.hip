// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=float16:
//     x_zero_point:bias=float32:activation=relu
//
// target    gfx90a
// config    mma instruction=1 tile_m=128 tile_n=128 tile_k=64 warp_m=64 warp_n=64 pipeline_stages=2
//           prefetch_fragments=0 split=4 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 256, 33808 B>>> when: call

@@ // The config.
TILE_M=128 TILE_N=128 TILE_K=64 WARP_M=64 WARP_N=64 PIPELINE_STAGES=2
constexpr int SPLIT = 4;  // blocks that share a tile

@@ // Derived values.
WARP_SIZE=64 THREADS=256 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=64 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=49 TILES_N=1 X_BYTES=16 W_BYTES=16 VECTOR_N=8 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=33808
FOLD_THREADS=128

@@ 922e30d8 in pages/mma-stream-everything-sm_80.cu: // Adds to device memory that several blocks add to.
@@ 3+1
    __hip_atomic_fetch_add(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
@@ 8+6
    return __hip_atomic_fetch_add(address, by, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
@@ 15+2
// Every thread calls this before one of them arrives for all: the barrier orders shared memory only.
__device__ __forceinline__ void publish() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
@@ 19+3
    return __hip_atomic_exchange(address, 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);

using X = signed char;
using W = signed char;
using Sum = int;
using Output = unsigned short;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    Sum* sums;  // sums of the tiles that several blocks share
    int* arrived;  // steps added so far to each of these tiles
    float multiplier;  // x_scale * w_scale

// mfma_i32_16x16x16i8: A is 16 channels, B is 16 pixels,
// each by 16 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 1, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 4;
constexpr int ATOM_ROWS = 16;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    using Operand = int;
    const Registers sum = __builtin_amdgcn_mfma_i32_16x16x16i8(

@@ c4617212 in whole/mma-16x16x32-staged-gfx942.hip:     // Loads the channel parameters of the tile.
@@ 10+1
            channel_parameters.bias[n] = tile::load(args.bias + k);
