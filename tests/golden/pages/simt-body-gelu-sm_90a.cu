// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     y_zero_point:bias=float32:activation=gelu
//
//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(gelu((acc + bias[k]) * multiplier[k]) * inverse) + y_zero) as int8
//
// target    sm_90a
// config    simt tile_m=128 tile_n=64 tile_k=64 thread_m=8 thread_n=4 pipeline_stages=2
// launch    conv2d_simt<<<49x2x1, 256, 25600 B>>> when: call

// x P(X < x) for a normally distributed X, computed as max(x, 0) - |x| P(X > |x|), which has no cancellation
// in the tail.
__device__ __forceinline__ float gelu(float x) {
    const float a = minimum(magnitude(x), 16.0f);
    const float t = divide(1.0f, fma(0.35f, a, 1.0f));
    const float rest = horner(t,
        0.13962124f, 0.13986449f, 0.11981436f, 0.10557948f,
        -0.023275385f, 0.15941046f, -0.25591797f, 0.14406896f,
        -0.02916568f);
    const float tail = flush(
        multiply(multiply(multiply(a, t), rest), exponential(multiply(multiply(a, a), -0.5f))));
    return flush(add(x > 0.0f ? x : 0.0f, -tail));
}

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    float inverse;  // 1 / y_scale
    float y_zero;  // the output zero point

@@ b18b6a1b in pages/simt-body-et-vulkan-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 4+1
@@ 6+0
    float multiplier;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 4+1
    channel.bias = tile::load(args.bias + k);
@@ 6+0
    channel.inverse = args.inverse;
    channel.y_zero = args.y_zero;

@@ 1a17263c in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+0
    value = tile::add(value, channel.bias);
@@ 9+2
    value = tile::gelu(value);
    value = tile::multiply(value, channel.inverse);
    result = tile::rounded(value, channel.y_zero);
