// map:shape=1210368:in=float16*1210368,float16*1210368:out=float16:do=t0=x0[i0];t1=x1[i0];t2=add(t0,t1)
//
//   t0 = x0[i0]
//   t1 = x1[i0]
//   t2 = add(t0, t1)
//   y = t2
//
// target    sm_90a
// config    map threads=128 vector=8 unroll=2
// launch    map<<<591x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=1210368

@@ // The config.
THREADS=128 VECTOR=8 UNROLL=2

using X0 = unsigned short;
using X1 = unsigned short;
using Output = unsigned short;

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // float16*1210368
    const X1* x1;  // float16*1210368

// Computes VECTOR neighbouring elements, of which `first` is the first.
__device__ __forceinline__ void compute(const Arguments& args, int first) {
    [[maybe_unused]] const int first_i0 = first;
    const Vector<X0> v0 = load_vector(args.x0 + first_i0);
    const Vector<X1> v1 = load_vector(args.x1 + first_i0);
    Vector<Output> y;
#pragma unroll
    for (int lane = 0; lane < VECTOR; ++lane) {
        [[maybe_unused]] const int i0 = first_i0 + lane;
        const float t0 = tile::half_to_float(v0.element[lane]);
        const float t1 = tile::half_to_float(v1.element[lane]);
        const float t2 = scalar::add(t0, t1);
        y.element[lane] = t2 == t2 ? tile::to_half(t2) : static_cast<Output>(0x7e00);
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
