// dynamic:outer=1:channels=512:inner=4096:x_type=bfloat16:out_type=int8
//
//   scale and zero_point of each channel, asymmetric, by the rule of torch
//   y = clamp(round_half_to_even(x / scale) + zero_point,
//             -128, 127) in float32, as int8
//
// target    sm_90a
// config    choosing threads=256 team=256 vector=8 unroll=4 slices=1
// launch    dynamic<<<512x1x1, 256, 2048 B>>> when: call

@@ // The problem.
CHANNELS=512 INNER=4096 COUNT=4096

@@ // The config.
THREADS=256
constexpr int TEAM = 256;  // threads that reduce one slice
VECTOR=8 UNROLL=4 SLICES=1

@@ // Derived values.
TEAMS=1 SHARED_SCALE=true IN_REGISTERS=true SLICE=4096 SMEM_BYTES=2048

using X = unsigned short;
using Output = signed char;
using Scale = float;

@@ f6b8cc49 in pages/choosing-choose-tensor-sm_90a.cu: // The kernel's only parameter.
@@ 4+0
    Output* y;  // the output
@@ 6+1

@@ 1dd3d7b5 in pages/choosing-choose-tensor-sm_90a.cu: __device__ __forceinline__ void see(Extremes& seen, X element) {
@@ 2+1
    const Real value = tile::bfloat16_to_float(element);

@@ 3de37240 in pages/choosing-choose-tensor-sm_90a.cu: // Computes a scale and a zero point from the extremes. The contract fixes the order and the rounding of the
@@ 10+1
    float unit = tile::divide(tile::add(largest, -smallest), 255.0f);
@@ 12+1
    zero_point = -128 - tile::round_to_int(tile::clamp(
        tile::divide(smallest, unit), -255.0f, 0.0f));


// Values derived from one scale, computed once for all elements that share it.
struct Prepared {
    float divisor;  // scale as float32
    float reciprocal;  // of the divisor, or 0
    float lowest;  // -128 - zero_point
    float highest;  // 127 - zero_point
    int zero;  // zero_point
};

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 4+1
    float value = static_cast<float>(tile::bfloat16_to_float(element));

__device__ __forceinline__ void convert_slice(
    const Arguments& args, const Slice& slice, const Choice& choice, Vector<X> (&x)[UNROLL]) {
    const Prepared prepared = prepare(choice.scale, choice.zero_point);
    for (unsigned row = slice.begin; row < slice.end; row += UNROLL * TEAM * VECTOR) {
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const unsigned first = row + (i * TEAM + slice.lane) * VECTOR;
            if (first + VECTOR <= slice.end) {
                const unsigned at = element_of(slice.channel, first);
                if constexpr (!IN_REGISTERS) x[i] = load_vector(args.x + at);
                Vector<Output> y;
#pragma unroll
                for (int j = 0; j < VECTOR; ++j) y.element[j] = convert(x[i].element[j], prepared);
                store_vector(args.y + at, y);
            } else {
                for (unsigned j = first; j < slice.end; ++j) {
                    const unsigned at = element_of(slice.channel, j);
                    args.y[at] = convert(args.x[at], prepared);
                }
            }
        }
    }
}

// A team reads its channel, chooses the parameters, and converts the elements that it has just read.
extern "C" __global__ void __launch_bounds__(THREADS) dynamic(const Arguments args) {
    const Slice slice = slice_of_team();
    Vector<X> x[UNROLL];
    const Choice choice = choice_of(together(look_at(args, slice, x)));
    if (!slice.exists()) return;
    if (slice.lane == 0) store(args, slice.channel, choice);
    convert_slice(args, slice, choice, x);
}
