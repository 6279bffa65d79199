// map:shape=1576,768:in=int8*1210368,float32*1!,int8*1!,float32*1!:out=int8:
//     do=t0=x0[i0*768+i1];t1=x2[0];t2=subtract(t0,t1);t3=to_float32(t2);t4=x1[0];t5=multiply(t3,t4);t6=multiply(t5,0.5);t7=multiply(t5,0.7071067690849304);t8=erf(t7);t9=add(t8,1.0);t10=multiply(t6,t9);t11=x3[0];t12=divide(t10,t11);t13=round(t12);t14=maximum(t13,-128.0);t15=minimum(t14,127.0);t16=to_int32(t15)
//
//   t0 = x0[i0 * 768 + i1]
//   t1 = x2[0]
//   t2 = subtract(t0, t1)
//   t3 = to_float32(t2)
//   t4 = x1[0]
//   t5 = multiply(t3, t4)
//   t6 = multiply(t5, 0.5)
//   t7 = multiply(t5, 0.7071067690849304)
//   t8 = erf(t7)
//   t9 = add(t8, 1.0)
//   t10 = multiply(t6, t9)
//   t11 = x3[0]
//   t12 = divide(t10, t11)
//   t13 = round(t12)
//   t14 = maximum(t13, -128.0)
//   t15 = minimum(t14, 127.0)
//   t16 = to_int32(t15)
//   y = t16
//
// target    sm_80
// config    map threads=128 vector=16 unroll=2
// launch    map<<<296x1x1, 128, 0 B>>> when: call

@@ // The config.
THREADS=128 VECTOR=16 UNROLL=2

using X0 = signed char;
using X1 = float;
using X2 = signed char;
using X3 = float;
using Output = signed char;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // int8*1210368
    const X1* x1;  // float32*1!
    const X2* x2;  // int8*1!
    const X3* x3;  // float32*1!
    Output* y;  // output
};

// Elementary functions, composed of correctly rounded operations only. Each returns NaN for NaN.

__device__ __forceinline__ float infinity() { return tile::as_float(0x7f800000u); }
__device__ __forceinline__ float not_a_number() { return tile::as_float(0x7fc00000u); }
__device__ __forceinline__ float with_sign_of(float magnitude, float a) {
    return tile::as_float((tile::as_bits(magnitude) & 0x7fffffffu) | (tile::as_bits(a) & 0x80000000u));
}

__device__ __forceinline__ float erf(float a) {
    if (a != a) return a;
    const float size = tile::magnitude(a);
    if (size < 1.0f) {
        const float terms = tile::horner(tile::multiply(a, a),
            0.12837917f, -0.37612626f, 0.112835854f, -0.026853811f,
            0.0051883277f, -0.00080101925f, 7.853858e-05f);
        return tile::fma(a, terms, a);
    }
    const float terms = tile::horner(size < 4.0f ? size : 4.0f,
        -0.00020206545f, 1.1296494f, 0.63306576f, 0.1086066f,
        -0.025348926f, 0.0042706365f, -0.00046035784f, 2.475424e-05f,
        -2.120859e-07f);
    return with_sign_of(tile::add(1.0f, -tile::exponential(-terms)), a);
}

// Computes VECTOR neighbouring elements, of which `first` is the first.
__device__ __forceinline__ void compute(const Arguments& args, int first) {
    [[maybe_unused]] const int i0 = first / 768;
    [[maybe_unused]] const int first_i1 = first % 768;
    const Vector<X0> v0 = load_vector(args.x0 + (i0 * 768 + first_i1));
    const int t1 = tile::load(args.x2);
    const float t4 = tile::load(args.x1);
    const float t11 = tile::load(args.x3);
    Vector<Output> y;
#pragma unroll
    for (int lane = 0; lane < VECTOR; ++lane) {
        [[maybe_unused]] const int i1 = first_i1 + lane;
        const int t0 = v0.element[lane];
        const int t2 = scalar::subtract(t0, t1);
        const float t3 = scalar::to_float32(t2);
        const float t5 = scalar::multiply(t3, t4);
        const float t6 = scalar::multiply(t5, 0.5f);
        const float t7 = scalar::multiply(t5, 0.7071067690849304f);
        const float t8 = scalar::erf(t7);
        const float t9 = scalar::add(t8, 1.0f);
        const float t10 = scalar::multiply(t6, t9);
        const float t12 = scalar::divide(t10, t11);
        const float t13 = scalar::round(t12);
        const float t14 = scalar::maximum(t13, -128.0f);
        const float t15 = scalar::minimum(t14, 127.0f);
        const int t16 = scalar::to_int32(t15);
        y.element[lane] = static_cast<Output>(t16);
    }
    store_vector(args.y + first, y);
}

@@ 11dce5c5 in pages/map-halves-sm_90a.cu: // A block has UNROLL rows of THREADS vectors each.
@@ 3+2
