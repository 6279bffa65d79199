// dequantize:outer=8:channels=21:inner=3136:x_type=int8:out_type=float32:zero_point:channels_last
//
//   y = (x - zero_point) * scale in float32, as float32
//
// target    gfx942
// config    elementwise threads=64 vector=1 unroll=1
// launch    dequantize<<<392x1x1, 64, 0 B>>> when: call

@@ // The problem.
constexpr int PIXELS = 25088;  // pixels of all images
CHANNELS=21
constexpr int INNER = 3136;  // pixels per image

@@ // The config.
THREADS=64
constexpr int VECTOR = 1;  // neighbouring pixels per load

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors of each channel, per block
WORD=1

using X = signed char;
using Scale = float;
using Output = float;

@@ 785061c4 in whole/elementwise-quantize-tensor-sm_90a.cu: // Values derived from one scale, computed once for all elements that share it.
@@ 3+4
    float factor;  // scale as float32

@@ 229cbd55 in whole/elementwise-quantize-tensor-sm_90a.cu: __device__ __forceinline__ Prepared prepare(
@@ 5+4
    prepared.factor = static_cast<float>(scale);

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 4+5
    float value = static_cast<float>(static_cast<int>(element) - prepared.zero);
    value = tile::multiply(value, prepared.factor);
    result = static_cast<Output>(value);

using Read = Run<X>;
using Written = Planes<Output>;

@@ 706afd8f in pages/elementwise-quantize-channels-last-sm_90a.cu: // A thread loads all of its pixels before it converts the first. VECTOR divides PIXELS.
@@ 2+3
extern "C" __global__ void __launch_bounds__(THREADS) dequantize(const Arguments args) {
