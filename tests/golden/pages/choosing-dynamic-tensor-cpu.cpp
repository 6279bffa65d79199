// dynamic:outer=1:channels=1:inner=1048576:x_type=float32:out_type=uint8:rule=onnx
//
//   scale and zero_point of the whole array, asymmetric, by the rule of onnx
//   y = clamp(round_half_to_even(x / scale) + zero_point,
//             0, 255) in float32, as uint8
//
// target    cpu
// config    choosing threads=256 team=256 vector=4 unroll=2 slices=16
// launch    dynamic_look<<<16x1x1, 256, 2048 B>>> when: call
// launch    dynamic_convert<<<16x1x1, 256, 2048 B>>> when: call

@@ // The problem.
CHANNELS=1 INNER=1048576 COUNT=1048576

@@ // The config.
THREADS=256
constexpr int TEAM = 256;  // threads that reduce one slice
VECTOR=4 UNROLL=2 SLICES=16

@@ // Derived values.
TEAMS=1 SHARED_SCALE=true IN_REGISTERS=false SLICE=65536 SMEM_BYTES=2048

using X = float;
using Output = unsigned char;
using Scale = float;

@@ f6b8cc49 in pages/choosing-choose-tensor-sm_90a.cu: // The kernel's only parameter.
@@ 4+0
    Output* y;  // the output

@@ 3de37240 in pages/choosing-choose-tensor-sm_90a.cu: // Computes a scale and a zero point from the extremes. The contract fixes the order and the rounding of the
@@ 10+3
    float unit = largest == smallest ? 1.0f
        : tile::divide(tile::add(largest, -smallest), 255.0f);
    unit = tile::minimum(unit, 3.4028234663852886e+38f);
    zero_point = tile::round_to_int(tile::clamp(
        tile::add(0.0f, -tile::divide(smallest, unit)), 0.0f, 255.0f));


// Values derived from one scale, computed once for all elements that share it.
struct Prepared {
    float divisor;  // scale as float32
    float reciprocal;  // of the divisor, or 0
    float lowest;  // 0 - zero_point
    float highest;  // 255 - zero_point
    int zero;  // zero_point
};

@@ 2bd97ea4 in pages/choosing-choose-tensor-sm_90a.cu: // Each block reads one slice and writes its extremes beside those of the channel's other slices.
@@ 2+1
extern "C" __global__ void __launch_bounds__(THREADS) dynamic_look(const Arguments args) {

// Each block converts one slice, after all slices of the channel have been read.
extern "C" __global__ void __launch_bounds__(THREADS) dynamic_convert(const Arguments args) {
    const Slice slice = slice_of_team();
    const Choice choice = choice_of(look_at_partials(args, slice.channel));
    if (tile::thread() == 0 && slice.part() == 0) store(args, slice.channel, choice);
    Vector<X> x[UNROLL];
    convert_slice(args, slice, choice, x);
}

// Entry points: the CPU device calls one per thread.
extern "C" void dynamic_look_entry(const void* args) {
    dynamic_look(*static_cast<const Arguments*>(args));
}
extern "C" void dynamic_convert_entry(const void* args) {
    dynamic_convert(*static_cast<const Arguments*>(args));
}
