// channel_shuffle:rows=100352:groups=2:width=64:x_type=int8
//
//   y[row][i][group] = x[row][group][i]
//
// target    sm_90a
// config    shuffle threads=128 vector=16 unroll=1
// launch    channel_shuffle<<<3136x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS_OF_GROUP=6422528 GROUPS=2
constexpr int WIDTH = 64;  // channels per group

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors of a group, per block
STORED=16

// The kernel's only parameter.
struct Arguments {
    const X* x;  // input, group after group
    X* y;  // output: the first channel of each group, the second of each, ...
};

struct alignas(STORED) Stored { X element[STORED]; };
static_assert(GROUPS * VECTOR % STORED == 0, "a thread writes whole words");

// The same columns of every group.
struct Columns { Vector<X> of[GROUPS]; };

// Loads the columns from `first` on, which counts the elements of one group in all rows.
__device__ __forceinline__ void load_columns(const Arguments& args, unsigned first, Columns& columns) {
    if (first >= ELEMENTS_OF_GROUP) return;
    const X* const x = args.x + first / WIDTH * (GROUPS * WIDTH) + first % WIDTH;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) columns.of[group] = load_vector(x + group * WIDTH);
}

// Stores the columns; they are contiguous in the output.
__device__ __forceinline__ void store_columns(const Arguments& args, unsigned first, const Columns& columns) {
    if (first >= ELEMENTS_OF_GROUP) return;
#pragma unroll
    for (int begin = 0; begin < GROUPS * VECTOR; begin += STORED) {
        Stored stored;
#pragma unroll
        for (int i = 0; i < STORED; ++i) {
            stored.element[i] = columns.of[(begin + i) % GROUPS].element[(begin + i) / GROUPS];
        }
        *reinterpret_cast<Stored*>(args.y + first * GROUPS + begin) = stored;
    }
}

// A thread loads all of its columns before it stores the first.
extern "C" __global__ void __launch_bounds__(THREADS) channel_shuffle(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    Columns columns[UNROLL];
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) load_columns(args, first_of_row(row), columns[row]);
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) store_columns(args, first_of_row(row), columns[row]);
}
