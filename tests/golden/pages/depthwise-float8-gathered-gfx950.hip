// conv2d:n=2:h=9:w=5:c=5:k=10:r=2:s=3:stride=1,2:dilation=2,1:pad=0,2,1,2:groups=5:x_type=float8_e4m3fn:
//     w_type=float8_e4m3fn:out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu:residual=float32
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   v   = (acc + bias[k]) * multiplier[k]
//   r   = v + residual * residual_scale
//   y   = relu(r), saturated, as float8_e4m3fn
//
// target    gfx950
// config    depthwise rows=2 columns=2 vector=4 run=1 threads=64
// launch    conv2d_repack_weights<<<1x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<1x1x1, 64, 0 B>>> when: call

@@ // The problem.
IN_H=9 IN_W=5 C=5 C_GROUP=1 OUT_H=8 OUT_W=4 K=10 K_GROUP=2 R=2 S=3 STRIDE_H=1 STRIDE_W=2 DILATION_H=2
DILATION_W=1 PAD_TOP=0 PAD_LEFT=2 PADDED=true PIXELS=64 REDUCTION=6 X_SIGNED=true W_SIGNED=true

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 4;  // channels per thread
constexpr int RUN = 1;  // neighbouring outputs that use the same words of pixels
THREADS=64

@@ // Derived values.
LOADS_BEFORE_BARRIER=false LOAD_K=1 STORE_K=2 TILES_H=4 TILES_W=2 VECTORS=3 UNITS=48

@@ 8865d045 in shared.cu: using X = unsigned char;
@@ 5+1
using Residual = float;

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
    const Residual* residual;  // added before the activation, NHWK
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
@@ 8+0
    float* taps;  // filters as fp32: each tap of all channels
    float residual_scale;  // residual_scale / y_scale

@@ ec798b21 in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const float residual = inputs.residual;
@@ 8+0
    value = tile::add(value, channel.bias);
@@ 9+0
    const float added = residual;
    value = tile::add(value, tile::multiply(added, channel.residual_scale));

using XWord = tile::E4m3s;
using WWord = tile::E4m3s;
static_assert(X_SIGNED && W_SIGNED, "floats are signed");

@@ 53a0d99a in pages/depthwise-float16-sm_90a.cu: // Loads channels LOAD_K at a time: either all of them exist or none does.
@@ 13+1
        using Loaded = unsigned char;

@@ 0e6fcbd1 in pages/depthwise-float16-sm_90a.cu: // Rearranges the filters for the kernel above, as fp32: one tap of all channels after the other. Runs once
@@ 8+1
    using Bits = unsigned char;
