// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:groups=4:x_type=bfloat16:w_type=bfloat16:
//     out_type=int8:per_channel:bias=float32:activation=relu:residual=bfloat16
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   v   = (acc + bias[k]) * multiplier[k]
//   r   = v + residual * residual_scale
//   y   = clamp(round_half_to_even(relu(r))) as int8
//
// target    cpu.sm_80
// config    direct tile_h=8 tile_w=8 slabs=2 warps=4 batch=1 blocks_per_sm=2
// launch    conv2d_repack_weights<<<144x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_direct<<<8x1x1, 128, 16512 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=32 OUT_H=28 OUT_W=28 K=128 K_GROUP=32 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=288 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int TILE_H = 8;  // output rows per tile
TILE_W=8
constexpr int SLABS = 2;  // slabs of channels per block
WARPS=4
constexpr int BATCH = 1;  // groups of 16 pixels that a warp computes together
BLOCKS_PER_SM=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS=9
constexpr int CHUNKS = 4;  // chunks of 16 bytes of input channels per slab
CHANNEL_BYTES=2 PARTS=2 SLAB_K=16 ALL_SLABS=8 STEPS=18
constexpr int ATOMS = 2;  // instructions per step
TILES_H=4 TILES_W=4 SLAB_TILES=4 TILES=512 GRID_BLOCKS=8
constexpr int X_BYTES = 16;  // bytes per copy of x
constexpr int VECTOR_K = 16;  // channels per store
COPIES_IN_FLIGHT=4 SMEM_BYTES=16512

using X = unsigned short;
using W = unsigned short;
using Sum = float;
using Output = signed char;
using Residual = unsigned short;

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
    const Residual* residual;  // added before the activation, NHWK
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
@@ 8+0
    int* fragments;  // filters, in the order in which a warp's lanes hold them
    float residual_scale;  // residual_scale / y_scale

@@ ec798b21 in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const int residual = inputs.residual;
@@ 8+0
    value = tile::add(value, channel.bias);
@@ 9+0
    const float added = tile::bfloat16_to_float(static_cast<unsigned short>(residual));
    value = tile::add(value, tile::multiply(added, channel.residual_scale));

// mma_m16n8k16_bf16 on the CPU device.
// The lanes of a warp exchange their registers, and each computes the elements of D that it holds. Operands
// in other positions than the hardware expects give wrong sums.
static_assert(WARP_SIZE == 32, "WARP_SIZE must be the lanes of the instruction");
static_assert(A_REGISTERS == 4, "A_REGISTERS must be those of the instruction");
static_assert(B_REGISTERS == 2, "B_REGISTERS must be those of the instruction");
static_assert(D_REGISTERS == 4, "D_REGISTERS must be those of the instruction");

// The hardware states no order of additions: a kernel's sums must be exact in any.
__device__ __forceinline__ Sum add_products(Sum sum, unsigned a, unsigned b) {
    using A = tile::Bfloats;
    using B = tile::Bfloats;
    for (int i = 0; i < A::COUNT; ++i) sum += A::of(a, i) * B::of(b, i);
    return sum;
}

@@ 1ffa56aa in pages/direct-depthwise-sm_90a.cu: // Computes all products of the groups of 16 pixels that a warp processes together. Lane l supplies the
@@ 7+1
    const auto base = tile::shared_address(&input.byte[local_slab / PARTS * CHUNKS][0][0]);

@@ f2a3c556 in pages/stem-pool-odd-cpu.sm_90a.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+2
extern "C" void conv2d_direct_entry(const void* args) {
    conv2d_direct(*static_cast<const Arguments*>(args));
