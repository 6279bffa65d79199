// map:shape=32,56,256:in=float16*458752,float32*256:out=float16:
//     do=t0=x0[i0*14336+i1*256+i2];t1=x1[i2];t2=add(t0,t1);t3=sigmoid(t2)
//
//   t0 = x0[i0 * 14336 + i1 * 256 + i2]
//   t1 = x1[i2]
//   t2 = add(t0, t1)
//   t3 = sigmoid(t2)
//   y = t3
//
// target    sm_90a
// config    map threads=128 vector=4 unroll=1
// launch    map<<<896x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=458752

@@ // The config.
THREADS=128 VECTOR=4 UNROLL=1

// Computes 1 / a, correctly rounded, for a from 1 to 2^126, in the way of a division but without its range
// check.
__device__ __forceinline__ float reciprocal(float a) {
    float rough;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(rough) : "f"(a));
    return __fmaf_rn(rough, __fmaf_rn(-a, rough, 1.0f), rough);
}

__device__ __forceinline__ float sigmoid(float x) { return reciprocal(add(1.0f, exponential(-x))); }

@@ b1f02e25 in pages/reduce-softmax-sm_90a.cu: using X0 = unsigned short;
@@ 3+1

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // float16*458752
    const X1* x1;  // float32*256

__device__ __forceinline__ float sigmoid(float a) { return a != a ? a : tile::sigmoid(a); }

// Computes VECTOR neighbouring elements, of which `first` is the first.
__device__ __forceinline__ void compute(const Arguments& args, int first) {
    [[maybe_unused]] const int i0 = first / 256 / 56;
    [[maybe_unused]] const int i1 = first / 256 % 56;
    [[maybe_unused]] const int first_i2 = first % 256;
    const Vector<X0> v0 = load_vector(args.x0 + (i0 * 14336 + i1 * 256 + first_i2));
    const Vector<X1> v1 = load_vector(args.x1 + (first_i2));
    Vector<Output> y;
#pragma unroll
    for (int lane = 0; lane < VECTOR; ++lane) {
        [[maybe_unused]] const int i2 = first_i2 + lane;
        const float t0 = tile::half_to_float(v0.element[lane]);
        const float t1 = v1.element[lane];
        const float t2 = scalar::add(t0, t1);
        const float t3 = scalar::sigmoid(t2);
        y.element[lane] = t3 == t3 ? tile::to_half(t3) : static_cast<Output>(0x7e00);
    }
    store_vector(args.y + first, y);
}

// A block has UNROLL rows of THREADS vectors each.
extern "C" __global__ void __launch_bounds__(THREADS) map(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) {
        const int first = ((tile::block_x() * UNROLL + row) * THREADS + tile::thread()) * VECTOR;
        if (first < ELEMENTS) compute(args, first);
    }
}
