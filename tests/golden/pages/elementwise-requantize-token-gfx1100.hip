// requantize:outer=1:channels=512:inner=768:x_type=int8:out_type=int8:x_zero_point:y_zero_point
//
//   y = clamp(round_half_to_even((x - x_zero) * (x_scale / y_scale)) + y_zero,
//             -128, 127) in float32, as int8
//
// target    gfx1100
// config    elementwise threads=64 vector=8 unroll=8
// launch    requantize<<<96x1x1, 64, 0 B>>> when: call

@@ // The problem.
ELEMENTS=393216 CHANNELS=512 INNER=768

@@ // The config.
THREADS=64 VECTOR=8 UNROLL=8

using X = signed char;
using Scale = float;
using Output = signed char;

@@ a9beb9a5 in whole/elementwise-quantize-tensor-sm_90a.cu: // The kernel's only parameter.
@@ 4+2
    const Scale* x_scale;  // of the input, per tensor, channel or block
    const int* x_zero;  // the zero point of the input, per tensor, channel or block
    const Scale* y_scale;  // of the output, per tensor, channel or block
    const int* y_zero;  // the zero point of the output, per tensor, channel or block

// Values derived from one scale, computed once for all elements that share it.
struct Prepared {
    float multiplier;  // x_scale / y_scale in float32, as float32
    int x_zero;  // x_zero
    float lowest;  // -128 - y_zero
    float highest;  // 127 - y_zero
    int zero;  // y_zero
};

__device__ __forceinline__ Prepared prepare(
    [[maybe_unused]] float x_scale,
    [[maybe_unused]] int x_zero,
    [[maybe_unused]] float y_scale,
    [[maybe_unused]] int y_zero) {
    Prepared prepared;
    prepared.multiplier = static_cast<float>(tile::divide(x_scale, y_scale));
    prepared.x_zero = x_zero;
    prepared.lowest = tile::add(-128.0f, -static_cast<float>(y_zero));
    prepared.highest = tile::add(127.0f, -static_cast<float>(y_zero));
    prepared.zero = y_zero;
    return prepared;
}

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 4+2
    float value = static_cast<float>(static_cast<int>(element) - prepared.x_zero);
    value = tile::multiply(value, prepared.multiplier);

__device__ __forceinline__ Prepared load_prepared(const Arguments& args, unsigned index) {
    return prepare(args.x_scale[index],
        args.x_zero[index],
        args.y_scale[index],
        args.y_zero[index]);
}

@@ 94b19ac2 in whole/elementwise-quantize-tensor-sm_90a.cu: // Each block converts UNROLL rows of THREADS vectors. A thread loads all of its vectors before it converts
@@ 3+3
extern "C" __global__ void __launch_bounds__(THREADS) requantize(const Arguments args) {
