// dequantize:outer=64:channels=4096:inner=1:block=32:x_type=int8:out_type=float16
//
//   y = x * scale in float32, as float16
//
// target    gfx942
// config    elementwise threads=64 vector=8 unroll=2
// launch    dequantize<<<256x1x1, 64, 0 B>>> when: call

@@ // The problem.
ELEMENTS=262144 CHANNELS=4096 INNER=1 BLOCK=32
constexpr int BLOCKS = 128;  // scales along the channels

@@ // Derived values.
ONE_SCALE=false SHARED_SCALE=true

using X = signed char;
using Scale = float;
using Output = unsigned short;

@@ a9beb9a5 in whole/elementwise-quantize-tensor-sm_90a.cu: // The kernel's only parameter.
@@ 5+1

// Values derived from one scale, computed once for all elements that share it.
struct Prepared {
    float factor;  // scale as float32
};

__device__ __forceinline__ Prepared prepare(
    [[maybe_unused]] float scale) {
    Prepared prepared;
    prepared.factor = static_cast<float>(scale);
    return prepared;
}

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 5+4
    value = tile::multiply(value, prepared.factor);
    result = tile::to_half(value);

// Returns the index of an element's scale.
__device__ __forceinline__ unsigned scale_index(unsigned element) {
    const unsigned channel = element / INNER % CHANNELS;
    return (element / (CHANNELS * INNER) * BLOCKS + channel / BLOCK) * INNER + element % INNER;
}

__device__ __forceinline__ Prepared load_prepared(const Arguments& args, unsigned index) {
    return prepare(args.scale[index]);
}

@@ 94b19ac2 in whole/elementwise-quantize-tensor-sm_90a.cu: // Each block converts UNROLL rows of THREADS vectors. A thread loads all of its vectors before it converts
@@ 3+3
extern "C" __global__ void __launch_bounds__(THREADS) dequantize(const Arguments args) {
