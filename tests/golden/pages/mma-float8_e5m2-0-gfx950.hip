// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float8_e5m2:w_type=float8_e5m2:
//     out_type=float8_e5m2:per_channel:bias=float32:activation=relu
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), saturated, as float8_e5m2
//
// target    gfx950
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 256, 16896 B>>> when: call

// The type that `narrow` converts to an output element.
using Finished = float;
using Narrow = tile::PackedE5m2s;

// mfma_f32_32x32x16_bf8_bf8: A is 32 channels, B is 32 pixels,
// each by 16 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 2, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 16;
constexpr int ATOM_ROWS = 32;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 6+1
    const Registers sum = __builtin_amdgcn_mfma_f32_32x32x16_bf8_bf8(
