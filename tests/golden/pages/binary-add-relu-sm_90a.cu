// add:outer=1:repeat=1:inner=25690112:a_type=int8:b_type=int8:out_type=int8:activation=relu
//
//   y = clamp(round_half_to_even(fma(a, a_ratio, fma(b, b_ratio, offset))), low, high)
//
// target    sm_90a
// config    binary threads=128 vector=16 unroll=1
// launch    add<<<12544x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=25690112 REPEAT=1
constexpr int INNER = 25690112;  // elements per row

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors per block
B_IN_VECTORS=true B_IS_SHARED=false

using A = signed char;
using B = signed char;
using Output = signed char;

// The kernel's only parameter.
struct Arguments {
    const A* a;  // first tensor
    const B* b;  // second tensor
    Output* y;  // output; may overwrite a
    float b_ratio;  // b_scale / y_scale
    float offset;  // y_zero_point - (a_ratio * a_zero_point + b_ratio * b_zero_point)
    float a_ratio;  // a_scale / y_scale
    float low;  // the least output
    float high;  // the largest output
};

// Combines two elements. The contract fixes the order and the rounding of the steps.
__device__ __forceinline__ Output combine(int a, int b, const Arguments& args) {
    float value = tile::fma(static_cast<float>(b), args.b_ratio, args.offset);
    value = tile::fma(static_cast<float>(a), args.a_ratio, value);
    return static_cast<Output>(tile::round_to_int(tile::clamp(value, args.low, args.high)));
}

// Returns the index of the element of b that is combined with element `at` of a: b is repeated REPEAT times
// between OUTER and INNER.
__device__ __forceinline__ unsigned index_of_b(unsigned at) {
    return REPEAT == 1 ? at : at / (REPEAT * INNER) * INNER + at % INNER;
}

// A vector of a, and the elements of b that are combined with it.
struct Pair {
    Vector<A> a;
    Vector<B> b;
};

__device__ __forceinline__ Pair load_pair(const Arguments& args, unsigned first) {
    Pair pair;
    pair.a = load_vector(args.a + first);
    if constexpr (B_IN_VECTORS) {
        pair.b = load_vector(args.b + index_of_b(first));
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            pair.b.element[i] = args.b[index_of_b(B_IS_SHARED ? first : first + i)];
        }
    }
    return pair;
}

__device__ __forceinline__ Vector<Output> combine_vectors(const Pair& pair, const Arguments& args) {
    Vector<Output> y;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) y.element[i] = combine(pair.a.element[i], pair.b.element[i], args);
    return y;
}

// A thread loads all of its vectors before it combines the first. Elements that fill no vector are combined
// one by one.
extern "C" __global__ void __launch_bounds__(THREADS) add(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    Pair pairs[UNROLL];
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) {
        const unsigned first = first_of_row(row);
        if (first + VECTOR <= ELEMENTS) pairs[row] = load_pair(args, first);
    }
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) {
        const unsigned first = first_of_row(row);
        if (first + VECTOR <= ELEMENTS) {
            store_vector(args.y + first, combine_vectors(pairs[row], args));
            continue;
        }
        for (unsigned at = first; at < ELEMENTS; ++at) {
            args.y[at] = combine(args.a[at], args.b[index_of_b(at)], args);
        }
    }
}
