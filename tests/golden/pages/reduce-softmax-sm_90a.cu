// reduce:rows=8192:columns=4096:in=float16*33554432,float32*4096!,float16*8192:out=float16:
//     do=t0=x0[r0*4096+c0];t1=maximum_of(t0);t2=subtract(t0,t1);t3=exp(t2);t4=sum_of(t3);t5=divide(t3,t4)
//
//   t0 = x0[r0 * 4096 + c0]
//   t1 = maximum_of(t0)
//   t2 = subtract(t0, t1)
//   t3 = exp(t2)
//   t4 = sum_of(t3)
//   t5 = divide(t3, t4)
//   y = t5
//
// target    sm_90a
// config    reduce threads=64 team=64 vector=4 across=0 unroll=16 keep=1
// launch    reduce<<<8192x1x1, 64, 2048 B>>> when: call

@@ // The problem.
constexpr int ROWS = 8192;
constexpr int COLUMNS = 4096;

// The config.
[[maybe_unused]] constexpr int THREADS = 64;
[[maybe_unused]] constexpr int TEAM = 64;  // threads that share a row
[[maybe_unused]] constexpr int VECTOR = 4;  // neighbouring elements per load
[[maybe_unused]] constexpr int ACROSS = 0;  // 1: threads and vectors lie across rows; 2: threads do
[[maybe_unused]] constexpr int UNROLL = 16;  // vectors that a thread has in flight
[[maybe_unused]] constexpr int KEEP = 1;  // passes keep values for later ones

// Derived values.
[[maybe_unused]] constexpr int WARP_SIZE = 32;
constexpr int TEAMS = 1;  // teams per block
constexpr int SPAN = 4;  // columns of a vector
constexpr int ROWS_OF_THREAD = 1;
constexpr int LANES = 256;  // lanes of a row: lane i folds the columns i, i + LANES, ...
constexpr int JUMPS = 1;  // vectors between two of the same lanes, of a thread
constexpr int STEPS = 16;  // vectors of a batch, of a thread
constexpr int BATCHES = 1;
constexpr bool IS_WHOLE = true;  // no batch exceeds the columns
[[maybe_unused]] constexpr int SHUFFLED = 32;  // neighbours of a team that shuffle values
[[maybe_unused]] constexpr int LANES_LEFT = 1;  // lanes of each, once they did
[[maybe_unused]] constexpr int NEXT = 1;  // distance of two members, in threads
[[maybe_unused]] constexpr int SMEM_BYTES = 2048;

using X0 = unsigned short;
using X1 = float;
using X2 = unsigned short;
using Output = unsigned short;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // float16*33554432
    const X1* x1;  // float32*4096!
    const X2* x2;  // float16*8192
    Output* y;  // output
};

static_assert(TEAM * TEAMS == THREADS, "every thread is of a team");
static_assert(JUMPS * TEAM * SPAN == LANES, "the lanes of a row are those of its team");
static_assert(STEPS % JUMPS == 0 || BATCHES == 1, "a step of every batch has the same lanes");

// t1 = maximum_of(t0)
struct Maximum1 {
    using Value = float;
    static __device__ __forceinline__ Value begin() { return tile::as_float(0xff800000u); }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return scalar::maximum(a, b); }
    static __device__ __forceinline__ Value of(float element, [[maybe_unused]] int column) {
        return element;
    }
    static __device__ __forceinline__ float result(Value a) { return a; }
};

// t4 = sum_of(t3)
struct Sum4 {
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
    float t4[ROWS_OF_THREAD];
};

// The vectors that a thread has in registers.
struct Vectors {
    Vector<X0> v0[STEPS];
};

// The values that a thread keeps of its elements between passes.
struct Values {
    float t3[STEPS][VECTOR];
};

struct Shared {
    Maximum1::Value maximum1[VECTOR][THREADS];
    Sum4::Value sum4[VECTOR][THREADS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Loads the vectors of a batch, of which `first` is the first column.
__device__ __forceinline__ void load_vectors(const Arguments& args, Vectors& vectors, int row, int first) {
    [[maybe_unused]] const int r0 = row;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        [[maybe_unused]] const int column = first + step * (TEAM * SPAN);
        if (IS_WHOLE || column < COLUMNS) {
            [[maybe_unused]] const int c0 = column;
            vectors.v0[step] = load_vector(args.x0 + (r0 * 4096 + c0));
        }
    }
}

// Calls body(column, step) for each vector of the thread, in order.
template <class Body>
__device__ __forceinline__ void for_each_vector(
    const Arguments& args, Vectors& vectors, int row, int member, const Body& body) {
    for (int batch = 0; batch < BATCHES; ++batch) {
        const int first = (batch * (STEPS * TEAM) + member) * SPAN;
        if (BATCHES > 1) load_vectors(args, vectors, row, first);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int column = first + step * (TEAM * SPAN);
            if (IS_WHOLE || column < COLUMNS) body(column, step);
        }
    }
}

template <class Value>
using SharedLanes = Value[VECTOR][THREADS];

// Copies the first lanes of a thread to shared memory.
template <int COUNT, class Value>
__device__ __forceinline__ void share(const Value (&lanes)[VECTOR], SharedLanes<Value>& shared) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) shared[i][tile::thread()] = lanes[i];
}

// Combines the lanes of members that are no neighbours in a warp, the farthest first. The first SHUFFLED
// members have the results.
template <class Fold, class Value>
__device__ __forceinline__ void combine_in_shared_memory(
    Value (&lanes)[VECTOR], SharedLanes<Value>& shared, int member) {
    for (int distance = TEAM / 2; distance >= SHUFFLED; distance /= 2) {
        if (member >= distance && member < 2 * distance) share<VECTOR>(lanes, shared);
        tile::barrier();
        if (member < distance)
#pragma unroll
            for (int i = 0; i < VECTOR; ++i)
                lanes[i] = Fold::combine(lanes[i], shared[i][tile::thread() + distance * NEXT]);
    }
}

// Gives the first member's lanes to the team.
template <class Value>
__device__ __forceinline__ void broadcast(Value (&lanes)[VECTOR], SharedLanes<Value>& shared, int member) {
    if (member == 0) share<ROWS_OF_THREAD>(lanes, shared);
    tile::barrier();
    const int first = tile::thread() - member * NEXT;
#pragma unroll
    for (int i = 0; i < ROWS_OF_THREAD; ++i) lanes[i] = shared[i][first];
}

// TEAM threads share a row, or VECTOR neighbouring rows. Neighbouring threads read neighbouring vectors:
// members of a team along a row, or teams across rows.
extern "C" __global__ void __launch_bounds__(THREADS) reduce(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    const int team = ACROSS ? tile::thread() % TEAMS : tile::thread() / TEAM;
    const int member = ACROSS ? tile::thread() / TEAMS : tile::thread() % TEAM;
    const int own_row = (tile::block_x() * TEAMS + team) * ROWS_OF_THREAD;
    // A team beyond the last row computes what the last team does.
    const int first_row = own_row < ROWS ? own_row : ROWS - ROWS_OF_THREAD;
    Rows rows;
    Vectors vectors;
    [[maybe_unused]] Values values;
    if (BATCHES == 1) load_vectors(args, vectors, first_row, member * SPAN);
    Shared& shared = tile::shared_memory<Shared>();
    {
        Lanes<Maximum1> lanes1;
        for_each_vector(args, vectors, first_row, member, [&](int first, [[maybe_unused]] int step) {
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) {
                [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
                [[maybe_unused]] const int r0 = row;
                [[maybe_unused]] const int c0 = column;
                const float t0 = tile::half_to_float(vectors.v0[step].element[i]);
                lanes1.add(step, i, Maximum1::of(t0, column));
            }
        });
        lanes1.combine_jumps();
        combine_in_shared_memory<Maximum1>(lanes1.value[0], shared.maximum1, member);
        combine_neighbours<Maximum1>(lanes1.value[0], member);
        broadcast(lanes1.value[0], shared.maximum1, member);
        set_rows<Maximum1>(rows.t1, lanes1.value[0]);
    }
    {
        Lanes<Sum4> lanes4;
        for_each_vector(args, vectors, first_row, member, [&](int first, [[maybe_unused]] int step) {
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) {
                [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
                [[maybe_unused]] const int r0 = row;
                [[maybe_unused]] const int c0 = column;
                [[maybe_unused]] const float t1 = rows.t1[at];
                const float t0 = tile::half_to_float(vectors.v0[step].element[i]);
                const float t2 = scalar::subtract(t0, t1);
                const float t3 = scalar::exp(t2);
                values.t3[step][i] = t3;
                lanes4.add(step, i, Sum4::of(t3, column));
            }
        });
        lanes4.combine_jumps();
        combine_in_shared_memory<Sum4>(lanes4.value[0], shared.sum4, member);
        combine_neighbours<Sum4>(lanes4.value[0], member);
        broadcast(lanes4.value[0], shared.sum4, member);
        set_rows<Sum4>(rows.t4, lanes4.value[0]);
    }
    if (own_row >= ROWS) return;
    for_each_vector(args, vectors, first_row, member, [&](int first, [[maybe_unused]] int step) {
        Vector<Output> y;
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
            [[maybe_unused]] const int r0 = row;
            [[maybe_unused]] const int c0 = column;
            const float t3 = values.t3[step][i];
            [[maybe_unused]] const float t4 = rows.t4[at];
            const float t5 = scalar::divide(t3, t4);
            y.element[i] = t5 == t5 ? tile::to_half(t5) : static_cast<Output>(0x7e00);
            if (ACROSS) args.y[row * COLUMNS + column] = y.element[i];
        }
        if (!ACROSS) store_vector(args.y + (first_row * COLUMNS + first), y);
    });
}
