// reduce:rows=9:columns=1000:in=float32*9000,float32*1000!,float16*9:out=int32:
//     do=t0=x0[r0*1000+c0];t1=argmax_of(t0)
//
//   t0 = x0[r0 * 1000 + c0]
//   t1 = argmax_of(t0)
//   y = t1
//
// target    cpu
// config    reduce threads=128 team=128 vector=2 across=0 unroll=4 keep=0
// launch    reduce<<<9x1x1, 128, 2048 B>>> when: call

@@ // The problem.
constexpr int ROWS = 9;
constexpr int COLUMNS = 1000;

// The config.
[[maybe_unused]] constexpr int THREADS = 128;
[[maybe_unused]] constexpr int TEAM = 128;  // threads that share a row
[[maybe_unused]] constexpr int VECTOR = 2;  // neighbouring elements per load
[[maybe_unused]] constexpr int ACROSS = 0;  // 1: threads and vectors lie across rows; 2: threads do
[[maybe_unused]] constexpr int UNROLL = 4;  // vectors that a thread has in flight
[[maybe_unused]] constexpr int KEEP = 0;  // passes keep values for later ones

@@ f7d6f32f in pages/reduce-softmax-sm_90a.cu: // Derived values.
@@ 4+1
constexpr int SPAN = 2;  // columns of a vector
@@ 8+1
constexpr int STEPS = 4;  // vectors of a batch, of a thread
@@ 10+1
constexpr bool IS_WHOLE = false;  // no batch exceeds the columns

using X0 = float;
using X1 = float;
using X2 = unsigned short;
using Output = int;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // float32*9000
    const X1* x1;  // float32*1000!
    const X2* x2;  // float16*9
    Output* y;  // output
};

// t1 = argmax_of(t0)
struct Argmax1 {
    using Value = Position<float>;
    static __device__ __forceinline__ Value begin() { return {tile::as_float(0xff800000u), 0x7fffffff}; }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return a.element > b.element || (a.element == b.element && a.column < b.column) ? a : b; }
    static __device__ __forceinline__ Value of(float element, [[maybe_unused]] int column) {
        return {element == element ? element : begin().element, column};
    }
    static __device__ __forceinline__ int result(Value a) { return a.column; }
};

// The values of a thread's rows.
struct Rows {
    int t1[ROWS_OF_THREAD];
};

struct Shared {
    Argmax1::Value argmax1[VECTOR][THREADS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

@@ e9734e20 in pages/reduce-softmax-sm_90a.cu: // Loads the vectors of a batch, of which `first` is the first column.
@@ 9+1
            vectors.v0[step] = load_vector(args.x0 + (r0 * 1000 + c0));

@@ 35cc0bc0 in pages/reduce-mean-of-pixels-sm_80.cu: // TEAM threads share a row, or VECTOR neighbouring rows. Neighbouring threads read neighbouring vectors:
@@ 15+1
        Lanes<Argmax1> lanes1;
@@ 19+3
                [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
                [[maybe_unused]] const int r0 = row;
@@ 23+3
                const float t0 = vectors.v0[step].element[i];
                lanes1.add(step, i, Argmax1::of(t0, column));
@@ 28+13
        lanes1.combine_jumps();
        combine_in_shared_memory<Argmax1>(lanes1.value[0], shared.argmax1, member);
        combine_neighbours<Argmax1>(lanes1.value[0], member);
        broadcast(lanes1.value[0], shared.argmax1, member);
        set_rows<Argmax1>(rows.t1, lanes1.value[0]);
@@ 45+2
        [[maybe_unused]] const int t1 = rows.t1[at];
        args.y[first_row + at] = static_cast<Output>(t1);

// Entry points: the CPU device calls one per thread.
extern "C" void reduce_entry(const void* args) {
    reduce(*static_cast<const Arguments*>(args));
}
