// reduce:rows=6304:columns=768:in=float32*4841472,float32*768!,float16*6304:out=float32:
//     do=t0=x0[r0*768+c0];t1=sum_of(t0);t2=divide(t1,768.0);t3=subtract(t0,t2);t4=multiply(t3,t3);t5=sum_of(t4);t6=divide(t5,768.0);t7=add(t6,9.999999747378752e-06);t8=sqrt(t7);t9=divide(1.0,t8);t10=multiply(t3,t9);t11=x1[c0];t12=multiply(t10,t11);t13=x2[r0];t14=add(t12,t13)
//
//   t0 = x0[r0 * 768 + c0]
//   t1 = sum_of(t0)
//   t2 = divide(t1, 768.0)
//   t3 = subtract(t0, t2)
//   t4 = multiply(t3, t3)
//   t5 = sum_of(t4)
//   t6 = divide(t5, 768.0)
//   t7 = add(t6, 9.999999747378752e-06)
//   t8 = sqrt(t7)
//   t9 = divide(1.0, t8)
//   t10 = multiply(t3, t9)
//   t11 = x1[c0]
//   t12 = multiply(t10, t11)
//   t13 = x2[r0]
//   t14 = add(t12, t13)
//   y = t14
//
// target    gfx942
// config    reduce threads=128 team=32 vector=4 across=0 unroll=8 keep=1
// launch    reduce<<<1576x1x1, 128, 0 B>>> when: call

@@ // The problem.
constexpr int ROWS = 6304;
constexpr int COLUMNS = 768;

// The config.
[[maybe_unused]] constexpr int THREADS = 128;
[[maybe_unused]] constexpr int TEAM = 32;  // threads that share a row
[[maybe_unused]] constexpr int VECTOR = 4;  // neighbouring elements per load
[[maybe_unused]] constexpr int ACROSS = 0;  // 1: threads and vectors lie across rows; 2: threads do
[[maybe_unused]] constexpr int UNROLL = 8;  // vectors that a thread has in flight
[[maybe_unused]] constexpr int KEEP = 1;  // passes keep values for later ones

@@ f7d6f32f in pages/reduce-softmax-sm_90a.cu: // Derived values.
@@ 2+2
[[maybe_unused]] constexpr int WARP_SIZE = 64;
constexpr int TEAMS = 4;  // teams per block
@@ 7+2
constexpr int JUMPS = 2;  // vectors between two of the same lanes, of a thread
constexpr int STEPS = 6;  // vectors of a batch, of a thread
@@ 14+1
[[maybe_unused]] constexpr int SMEM_BYTES = 0;

// Returns the value of the lane whose number differs from this lane's in the bits of `mask`.
__device__ __forceinline__ int shuffle_xor(int value, int mask) {
    return __builtin_amdgcn_ds_bpermute((lane() ^ mask) * 4, value);
}

using X0 = float;
using X1 = float;
using X2 = unsigned short;
using Output = float;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // float32*4841472
    const X1* x1;  // float32*768!
    const X2* x2;  // float16*6304
    Output* y;  // output
};

// t1 = sum_of(t0)
struct Sum1 {
    using Value = float;
    static __device__ __forceinline__ Value begin() { return 0.0f; }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return scalar::add(a, b); }
    static __device__ __forceinline__ Value of(float element, [[maybe_unused]] int column) {
        return element;
    }
    static __device__ __forceinline__ float result(Value a) { return a; }
};

// t5 = sum_of(t4)
struct Sum5 {
    using Value = float;
    static __device__ __forceinline__ Value begin() { return 0.0f; }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return scalar::add(a, b); }
    static __device__ __forceinline__ Value of(float element, [[maybe_unused]] int column) {
        return element;
    }
    static __device__ __forceinline__ float result(Value a) { return a; }
};

// The values of a thread's rows.
struct Rows {
    float t1[ROWS_OF_THREAD];
    float t2[ROWS_OF_THREAD];
    float t5[ROWS_OF_THREAD];
    float t6[ROWS_OF_THREAD];
    float t7[ROWS_OF_THREAD];
    float t8[ROWS_OF_THREAD];
    float t9[ROWS_OF_THREAD];
    float t13[ROWS_OF_THREAD];
};

@@ 64a5dc33 in pages/reduce-softmax-sm_90a.cu: // The vectors that a thread has in registers.
@@ 4+0
    Vector<X1> v1[STEPS];

@@ e9734e20 in pages/reduce-softmax-sm_90a.cu: // Loads the vectors of a batch, of which `first` is the first column.
@@ 9+1
            vectors.v0[step] = load_vector(args.x0 + (r0 * 768 + c0));
            vectors.v1[step] = load_vector(args.x1 + c0);

@@ f25b49cd in pages/reduce-softmax-sm_90a.cu: // TEAM threads share a row, or VECTOR neighbouring rows. Neighbouring threads read neighbouring vectors:
@@ 4+2
@@ 15+1
#pragma unroll
    for (int at = 0; at < ROWS_OF_THREAD; ++at) {
        [[maybe_unused]] const int row = first_row + at;
        [[maybe_unused]] const int r0 = row;
        const float t13 = tile::half_to_float(tile::load(args.x2 + r0));
        rows.t13[at] = t13;
    }
@@ 17+1
        Lanes<Sum1> lanes1;
@@ 24+2
                const float t0 = vectors.v0[step].element[i];
                lanes1.add(step, i, Sum1::of(t0, column));
@@ 29+4
        combine_neighbours<Sum1>(lanes1.value[0], member);
        set_rows<Sum1>(rows.t1, lanes1.value[0]);
    }
#pragma unroll
    for (int at = 0; at < ROWS_OF_THREAD; ++at) {
        [[maybe_unused]] const int row = first_row + at;
        [[maybe_unused]] const int r0 = row;
        [[maybe_unused]] const float t1 = rows.t1[at];
        const float t2 = scalar::divide(t1, 768.0f);
        rows.t2[at] = t2;
@@ 35+1
        Lanes<Sum5> lanes5;
@@ 42+4
                [[maybe_unused]] const float t2 = rows.t2[at];
                const float t0 = vectors.v0[step].element[i];
                const float t3 = scalar::subtract(t0, t2);
                const float t4 = scalar::multiply(t3, t3);
@@ 47+1
                lanes5.add(step, i, Sum5::of(t4, column));
@@ 50+5
        lanes5.combine_jumps();
        combine_neighbours<Sum5>(lanes5.value[0], member);
        set_rows<Sum5>(rows.t5, lanes5.value[0]);
    }
#pragma unroll
    for (int at = 0; at < ROWS_OF_THREAD; ++at) {
        [[maybe_unused]] const int row = first_row + at;
        [[maybe_unused]] const int r0 = row;
        [[maybe_unused]] const float t5 = rows.t5[at];
        const float t6 = scalar::divide(t5, 768.0f);
        const float t7 = scalar::add(t6, 9.999999747378752e-06f);
        const float t8 = scalar::sqrt(t7);
        const float t9 = scalar::divide(1.0f, t8);
        rows.t6[at] = t6;
        rows.t7[at] = t7;
        rows.t8[at] = t8;
        rows.t9[at] = t9;
@@ 65+3
            [[maybe_unused]] const float t9 = rows.t9[at];
            [[maybe_unused]] const float t13 = rows.t13[at];
            const float t10 = scalar::multiply(t3, t9);
            const float t11 = vectors.v1[step].element[i];
            const float t12 = scalar::multiply(t10, t11);
            const float t14 = scalar::add(t12, t13);
            y.element[i] = t14 == t14 ? t14 : tile::as_float(0x7fc00000u);
