// map:shape=8,1024,32,2:in=uint8*524288,float32*256,float32*32!,uint8*64!,float32*2!:out=uint8:
//     do=t0=x0[i0*65536+i1*64+i2*2+i3];t1=x3[0];t2=subtract(t0,t1);t3=to_float32(t2);t4=x1[i0*32+i2];t5=subtract(t3,t4);t6=x2[i2];t7=multiply(t5,t6);t8=x3[i2*2+i3];t9=to_float32(t8);t10=add(t7,t9);t11=x4[0];t12=x4[1];t13=quantize(t10,t11,t12,0.0,255.0)
//
//   t0 = x0[i0 * 65536 + i1 * 64 + i2 * 2 + i3]
//   t1 = x3[0]
//   t2 = subtract(t0, t1)
//   t3 = to_float32(t2)
//   t4 = x1[i0 * 32 + i2]
//   t5 = subtract(t3, t4)
//   t6 = x2[i2]
//   t7 = multiply(t5, t6)
//   t8 = x3[i2 * 2 + i3]
//   t9 = to_float32(t8)
//   t10 = add(t7, t9)
//   t11 = x4[0]
//   t12 = x4[1]
//   t13 = quantize(t10, t11, t12, 0.0, 255.0)
//   y = t13
//
// target    sm_90a
// config    map threads=128 vector=16 unroll=1
// launch    map<<<256x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=524288

@@ // The config.
THREADS=128 VECTOR=16 UNROLL=1 GROUP=2

using X0 = unsigned char;
using X1 = float;
using X2 = float;
using X3 = unsigned char;
using X4 = float;
using Output = unsigned char;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // uint8*524288
    const X1* x1;  // float32*256
    const X2* x2;  // float32*32!
    const X3* x3;  // uint8*64!
    const X4* x4;  // float32*2!
    Output* y;  // output
};

// The inverse is the same for all elements of a scale: the compiler computes it once.
__device__ __forceinline__ int quantize(float a, float scale, float zero, float low, float high) {
    const float inverse = tile::divide(1.0f, scale), rough = tile::multiply(a, inverse);
    const float exact = tile::fma(tile::fma(-scale, rough, a), inverse, rough);
    const float quotient = tile::magnitude(rough) < 0x1p23f ? exact : rough;
    return tile::truncated(tile::smaller(tile::larger(tile::add(tile::round(quotient), zero), low), high));
}

// Computes VECTOR neighbouring elements, of which `first` is the first.
__device__ __forceinline__ void compute(const Arguments& args, int first) {
    [[maybe_unused]] const int i0 = first / 64 / 1024;
    [[maybe_unused]] const int i1 = first / 64 % 1024;
    [[maybe_unused]] const int first_i2_i3 = first % 64;
    const Vector<X0> v0 = load_vector(args.x0 + (i0 * 65536 + i1 * 64 + first_i2_i3));
    const Vector<X3> v1 = load_vector(args.x3 + first_i2_i3);
    const int t1 = tile::load(args.x3);
    const float t11 = tile::load(args.x4);
    const float t12 = tile::load(args.x4 + (1));
    Vector<Output> y;
    // The elements of a group have equal indices of all axes but the last.
#pragma unroll
    for (int group = 0; group < VECTOR; group += GROUP) {
        const int group_i2_i3 = first_i2_i3 + group;
        const float t4 = tile::load(args.x1 + (i0 * 32 + group_i2_i3 / 2));
        const float t6 = tile::load(args.x2 + (group_i2_i3 / 2));
#pragma unroll
        for (int lane = group; lane < group + GROUP; ++lane) {
            [[maybe_unused]] const int i2_i3 = first_i2_i3 + lane;
            const int t0 = v0.element[lane];
            const int t2 = scalar::subtract(t0, t1);
            const float t3 = scalar::to_float32(t2);
            const float t5 = scalar::subtract(t3, t4);
            const float t7 = scalar::multiply(t5, t6);
            const int t8 = v1.element[lane];
            const float t9 = scalar::to_float32(t8);
            const float t10 = scalar::add(t7, t9);
            const int t13 = scalar::quantize(t10, t11, t12, 0.0f, 255.0f);
            y.element[lane] = static_cast<Output>(t13);
        }
    }
    store_vector(args.y + first, y);
}
