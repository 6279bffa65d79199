// quantize:outer=8:channels=64:inner=196:x_type=float32:out_type=int8:zero_point:quotient=reciprocal:
//     zero_point_add=before_round
//
//   y = clamp(round_half_to_even(x * (1 / scale) + zero_point),
//             -128, 127) in float32, as int8
//
// target    sm_80
// config    elementwise threads=64 vector=8 unroll=2
// launch    quantize<<<98x1x1, 64, 0 B>>> when: call

@@ // The problem.
ELEMENTS=100352 CHANNELS=64 INNER=196

@@ // The config.
THREADS=64 VECTOR=8 UNROLL=2

@@ // Derived values.
ONE_SCALE=false SHARED_SCALE=false

// Values derived from one scale, computed once for all elements that share it.
struct Prepared {
    float inverse;  // 1 / scale in float32, as float32
    float real_zero;  // zero_point, real
};

@@ 229cbd55 in whole/elementwise-quantize-tensor-sm_90a.cu: __device__ __forceinline__ Prepared prepare(
@@ 5+5
    prepared.inverse = static_cast<float>(tile::divide(1.0f, scale));
    prepared.real_zero = static_cast<float>(zero_point);

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 5+1
    value = tile::multiply(value, prepared.inverse);
    value = tile::add(value, prepared.real_zero);
@@ 7+2
        tile::round_small(tile::clamp(value, -128.0f, 127.0f)));

@@ 94b19ac2 in whole/elementwise-quantize-tensor-sm_90a.cu: // Each block converts UNROLL rows of THREADS vectors. A thread loads all of its vectors before it converts
@@ 4+2
