// reduce:rows=32,2048:columns=49:in=int8*3211264,float32*49!,float16*65536:out=float32:
//     do=t0=x0[r0*100352+c0*2048+r1];t1=to_float32(t0);t2=sum_of(t1);t3=divide(t2,49.0)
//
//   t0 = x0[r0 * 100352 + c0 * 2048 + r1]
//   t1 = to_float32(t0)
//   t2 = sum_of(t1)
//   t3 = divide(t2, 49.0)
//   y = t3
//
// target    sm_80
// config    reduce threads=128 team=8 vector=8 across=1 unroll=8 keep=0
// launch    reduce<<<512x1x1, 128, 4096 B>>> when: call

@@ // The problem.
constexpr int ROWS = 65536;
constexpr int COLUMNS = 49;

// The config.
[[maybe_unused]] constexpr int THREADS = 128;
[[maybe_unused]] constexpr int TEAM = 8;  // threads that share a row
[[maybe_unused]] constexpr int VECTOR = 8;  // neighbouring elements per load
[[maybe_unused]] constexpr int ACROSS = 1;  // 1: threads and vectors lie across rows; 2: threads do
[[maybe_unused]] constexpr int UNROLL = 8;  // vectors that a thread has in flight
[[maybe_unused]] constexpr int KEEP = 0;  // passes keep values for later ones

// Derived values.
[[maybe_unused]] constexpr int WARP_SIZE = 32;
constexpr int TEAMS = 16;  // teams per block
constexpr int SPAN = 1;  // columns of a vector
constexpr int ROWS_OF_THREAD = 8;
constexpr int LANES = 64;  // lanes of a row: lane i folds the columns i, i + LANES, ...
constexpr int JUMPS = 8;  // vectors between two of the same lanes, of a thread
constexpr int STEPS = 7;  // vectors of a batch, of a thread
constexpr int BATCHES = 1;
constexpr bool IS_WHOLE = false;  // no batch exceeds the columns
[[maybe_unused]] constexpr int SHUFFLED = 1;  // neighbours of a team that shuffle values
[[maybe_unused]] constexpr int LANES_LEFT = 8;  // lanes of each, once they did
[[maybe_unused]] constexpr int NEXT = 16;  // distance of two members, in threads
[[maybe_unused]] constexpr int SMEM_BYTES = 4096;

using X0 = signed char;
using X1 = float;
using X2 = unsigned short;
using Output = float;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // int8*3211264
    const X1* x1;  // float32*49!
    const X2* x2;  // float16*65536
    Output* y;  // output
};

// t2 = sum_of(t1)
struct Sum2 {
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
    float t2[ROWS_OF_THREAD];
    float t3[ROWS_OF_THREAD];
};

// The values that a thread keeps of its elements between passes.
struct Values {
    // None.
};

struct Shared {
    Sum2::Value sum2[VECTOR][THREADS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

@@ e9734e20 in pages/reduce-softmax-sm_90a.cu: // Loads the vectors of a batch, of which `first` is the first column.
@@ 3+1
    [[maybe_unused]] const int r1 = row % 2048;
    [[maybe_unused]] const int r0 = row / 2048;
@@ 9+1
            vectors.v0[step] = load_vector(args.x0 + (r0 * 100352 + c0 * 2048 + r1));

@@ e75f999c in shared.cu: // Combines the lanes of SHUFFLED neighbours, the farthest first, then those along a vector. While a thread
@@ 5+22

// TEAM threads share a row, or VECTOR neighbouring rows. Neighbouring threads read neighbouring vectors:
// members of a team along a row, or teams across rows.
extern "C" __global__ void __launch_bounds__(THREADS) reduce(const Arguments args) {
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
        Lanes<Sum2> lanes2;
        for_each_vector(args, vectors, first_row, member, [&](int first, [[maybe_unused]] int step) {
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) {
                [[maybe_unused]] const int at = i, row = first_row + at, column = first;
                [[maybe_unused]] const int r1 = row % 2048;
                [[maybe_unused]] const int r0 = row / 2048;
                [[maybe_unused]] const int c0 = column;
                const int t0 = vectors.v0[step].element[i];
                const float t1 = scalar::to_float32(t0);
                lanes2.add(step, i, Sum2::of(t1, column));
            }
        });
        lanes2.combine_jumps();
        combine_in_shared_memory<Sum2>(lanes2.value[0], shared.sum2, member);
        broadcast(lanes2.value[0], shared.sum2, member);
        set_rows<Sum2>(rows.t2, lanes2.value[0]);
    }
#pragma unroll
    for (int at = 0; at < ROWS_OF_THREAD; ++at) {
        [[maybe_unused]] const int row = first_row + at;
        [[maybe_unused]] const int r1 = row % 2048;
        [[maybe_unused]] const int r0 = row / 2048;
        [[maybe_unused]] const float t2 = rows.t2[at];
        const float t3 = scalar::divide(t2, 49.0f);
        rows.t3[at] = t3;
    }
    if (own_row >= ROWS || member > 0) return;
#pragma unroll
    for (int at = 0; at < ROWS_OF_THREAD; ++at) {
        [[maybe_unused]] const float t3 = rows.t3[at];
        args.y[first_row + at] = t3 == t3 ? t3 : tile::as_float(0x7fc00000u);
    }
}
