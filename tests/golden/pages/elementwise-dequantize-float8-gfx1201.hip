// dequantize:outer=64:channels=4096:inner=1:block=32:x_type=float8_e5m2:out_type=float16
//
// target    gfx1201
// config    elementwise threads=64 vector=8 unroll=2
// launch    dequantize<<<256x1x1, 64, 0 B>>> when: call

// The elements of a 32-bit word as floats: four of OCP's e5m2, each the upper half of a half.
struct E5m2s {
    static constexpr int COUNT = 4, MANTISSA = 2;
    static __device__ __forceinline__ float of(unsigned word, int i) {
        return half_to_float(static_cast<unsigned short>((word >> (8 * i) & 0xffu) << 8));
    }
};

using X = unsigned char;
using Scale = float;
using Output = unsigned short;

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 4+5
    float value = static_cast<float>(tile::E5m2s::of(element, 0));
    value = tile::multiply(value, prepared.factor);
    result = tile::to_half(value);
