// mul:outer=32:repeat=784:inner=120:a_type=uint8:b_type=uint8:out_type=uint8
//
//   y = clamp(round_half_to_even((a - a_zero) * (b - b_zero) * ratio + y_zero), low, high)
//
// target    gfx942
// config    binary threads=128 vector=8 unroll=1
// launch    mul<<<2940x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=3010560 REPEAT=784
constexpr int INNER = 120;  // elements per row

using A = unsigned char;
using B = unsigned char;
using Output = unsigned char;

@@ a45a42da in pages/binary-add-relu-sm_90a.cu: // The kernel's only parameter.
@@ 6+3
    int a_zero;  // the zero point of a
    int b_zero;  // the zero point of b
    float ratio;  // a_scale * b_scale / y_scale
    float y_zero;  // the zero point of y

@@ 5bb48125 in pages/binary-add-relu-sm_90a.cu: // Combines two elements. The contract fixes the order and the rounding of the steps.
@@ 3+2
    float value = static_cast<float>((a - args.a_zero) * (b - args.b_zero));
    value = tile::add(tile::multiply(value, args.ratio), args.y_zero);

@@ 8bffc0c8 in pages/binary-add-relu-sm_90a.cu: // A thread loads all of its vectors before it combines the first. Elements that fill no vector are combined
@@ 3+3
extern "C" __global__ void __launch_bounds__(THREADS) mul(const Arguments args) {
