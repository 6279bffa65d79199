// map:shape=64,1000:in=int64*64000,int64*64,bool*1000:out=bool:
//     do=t0=x0[i0*1000+i1];t1=x1[i0];t2=less(t0,t1);t3=x2[i1];t4=logical_not(t3);t5=bit_and(t2,t4)
//
//   t0 = x0[i0 * 1000 + i1]
//   t1 = x1[i0]
//   t2 = less(t0, t1)
//   t3 = x2[i1]
//   t4 = logical_not(t3)
//   t5 = bit_and(t2, t4)
//   y = t5
//
// target    gfx1100
// config    map threads=128 vector=2 unroll=1
// launch    map<<<250x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=64000

@@ // The config.
THREADS=128 VECTOR=2 UNROLL=1

using X0 = long long;
using X1 = long long;
using X2 = unsigned char;
using Output = unsigned char;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // int64*64000
    const X1* x1;  // int64*64
    const X2* x2;  // bool*1000
    Output* y;  // output
};

__device__ __forceinline__ bool is_nan(float a) { return a != a; }
__device__ __forceinline__ bool is_infinite(float a) { return a == a && a - a != a - a; }
template <class T>
__device__ __forceinline__ bool less(T a, T b) { return a < b; }
template <class T>
__device__ __forceinline__ bool less_or_equal(T a, T b) { return a <= b; }
template <class T>
__device__ __forceinline__ bool equal(T a, T b) { return a == b; }

// Computes VECTOR neighbouring elements, of which `first` is the first.
__device__ __forceinline__ void compute(const Arguments& args, int first) {
    [[maybe_unused]] const int i0 = first / 1000;
    [[maybe_unused]] const int first_i1 = first % 1000;
    const Vector<X0> v0 = load_vector(args.x0 + (i0 * 1000 + first_i1));
    const Vector<X2> v1 = load_vector(args.x2 + first_i1);
    const long long t1 = tile::load(args.x1 + i0);
    Vector<Output> y;
#pragma unroll
    for (int lane = 0; lane < VECTOR; ++lane) {
        [[maybe_unused]] const int i1 = first_i1 + lane;
        const long long t0 = v0.element[lane];
        const bool t2 = scalar::less(t0, t1);
        const bool t3 = v1.element[lane];
        const bool t4 = scalar::logical_not(t3);
        const bool t5 = scalar::bit_and(t2, t4);
        y.element[lane] = static_cast<Output>(t5);
    }
    store_vector(args.y + first, y);
}
