// quantize:outer=64:channels=256:inner=4096:x_type=bfloat16:out_type=float8_e4m3fn
//
//   y = x / scale in float32, as float8_e4m3fn, saturated
//
// target    sm_90a
// config    elementwise threads=256 vector=8 unroll=4
// launch    quantize<<<8192x1x1, 256, 0 B>>> when: call

@@ // The problem.
ELEMENTS=67108864 CHANNELS=256 INNER=4096

@@ // The config.
THREADS=256 VECTOR=8 UNROLL=4

using X = unsigned short;
using Scale = float;
using Output = unsigned char;

@@ 785061c4 in whole/elementwise-quantize-tensor-sm_90a.cu: // Values derived from one scale, computed once for all elements that share it.
@@ 4+4

@@ 1ab1b84b in pages/elementwise-dequantize-block-gfx942.hip: __device__ __forceinline__ Prepared prepare(
@@ 4+1
    prepared.divisor = static_cast<float>(scale);

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 4+5
    float value = static_cast<float>(tile::bfloat16_to_float(element));
    value = tile::divide(value, prepared.divisor);
    result = tile::PackedE4m3s::one(value);
