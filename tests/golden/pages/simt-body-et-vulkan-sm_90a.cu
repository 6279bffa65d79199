// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:y_zero_point:
//     bias=float32:order=multiply_reciprocal:bias_scaling=real:fma=on
//
//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(fma(acc, scale, bias[k]) * inverse) + y_zero) as int8
//
// target    sm_90a
// config    simt tile_m=128 tile_n=64 tile_k=64 thread_m=8 thread_n=4 pipeline_stages=2
// launch    conv2d_simt<<<49x2x1, 256, 25600 B>>> when: call

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: the bias, in real units
    float scale;  // x_scale * w_scale
    float inverse;  // 1 / y_scale
    float y_zero;  // the output zero point

// The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
// thread loads them once for all its outputs of the channel.
struct Channel {
    float scale;
    float bias;
    float inverse;
    float y_zero;
};

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 4+2
    channel.scale = args.scale;
    channel.bias = tile::load(args.bias + k);
    channel.inverse = args.inverse;
    channel.y_zero = args.y_zero;

@@ 1a17263c in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+3
    value = tile::fma(value, channel.scale, channel.bias);
    value = tile::multiply(value, channel.inverse);
    result = tile::rounded(value, channel.y_zero);
