// concat:rows=25088:widths=128,96,32:tables=0,1,1:x_type=uint8
//
//   y = the slices of each row, one behind the other
//
// target    sm_90a
// config    concat threads=128 vector=16 load=16 unroll=1
// launch    concat<<<3136x1x1, 128, 512 B>>> when: call

@@ // The problem.
constexpr int ELEMENTS = 6422528;  // elements of the output
WIDTH=256 TABLES=2 ENTRIES=256

@@ // The config.
THREADS=128
constexpr int VECTOR = 16;  // neighbouring elements per store
LOAD=16 UNROLL=1

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors per block
SMEM_BYTES=512

// The kernel's only parameter.
struct Arguments {
    const X* x0;  // a tensor
    const X* x1;  // a tensor
    const X* x2;  // a tensor
    const X* tables;  // output for each byte, table by table
    X* y;  // output
};

// The tables of all tensors that have one, concatenated.
struct Shared { alignas(16) X entries[ENTRIES * TABLES]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Loads the tables into shared memory. VECTOR divides ENTRIES.
__device__ __forceinline__ void prepare_tables(const Arguments& args) {
    for (unsigned at = tile::thread() * VECTOR; at < ENTRIES * TABLES; at += THREADS * VECTOR) {
        store_vector(tile::shared_memory<Shared>().entries + at, load_vector(args.tables + at));
    }
    tile::barrier();
}

// Looks up a vector in a tensor's table; TABLE is -1 for a tensor without one.
template <int TABLE>
__device__ __forceinline__ Vector<X> translate(const Vector<X>& x) {
    if constexpr (TABLE < 0) return x;
    const X* const table = tile::shared_memory<Shared>().entries + (TABLE < 0 ? 0 : TABLE) * ENTRIES;
    Vector<X> y;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) y.element[i] = table[static_cast<unsigned char>(x.element[i])];
    return y;
}

// Loads a vector of a slice, LOAD elements at a time; a slice need not begin at a multiple of VECTOR.
__device__ __forceinline__ Vector<X> load_in_parts(const X* from) {
    static_assert(VECTOR % LOAD == 0, "LOAD must divide VECTOR");
    if constexpr (LOAD == VECTOR) {
        return load_vector(from);
    } else {
        Vector<X> x;
#pragma unroll
        for (int i = 0; i < VECTOR; i += LOAD) {
            *reinterpret_cast<tile::Vector<X, LOAD>*>(x.element + i) = tile::load_vector<LOAD>(from + i);
        }
        return x;
    }
}

// Loads a vector of y, all of it from one slice, beginning at `column`.
__device__ __forceinline__ Vector<X> load_slice(const Arguments& args, unsigned row, unsigned column) {
    if (column < 128) {
        const unsigned at = row * 128 + 0 + column - 0;
        return load_in_parts(args.x0 + at);
    }
    if (column < 224) {
        const unsigned at = row * 96 + 0 + column - 128;
        return load_in_parts(args.x1 + at);
    }
    if (column < 256) {
        const unsigned at = row * 32 + 0 + column - 224;
        return load_in_parts(args.x2 + at);
    }
    return Vector<X>();
}

__device__ __forceinline__ Vector<X> translate_slice(const Vector<X>& x, unsigned column) {
    if (column < 128) return translate<-1>(x);
    if (column < 224) return translate<0>(x);
    if (column < 256) return translate<1>(x);
    return x;
}

// A thread loads all of its vectors before it stores the first. VECTOR divides ELEMENTS.
extern "C" __global__ void __launch_bounds__(THREADS) concat(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    prepare_tables(args);
    Vector<X> x[UNROLL] = {};
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) {
        const unsigned first = first_of_row(row);
        if (first < ELEMENTS) x[row] = load_slice(args, first / WIDTH, first % WIDTH);
    }
#pragma unroll
    for (int row = 0; row < UNROLL; ++row) {
        const unsigned first = first_of_row(row);
        if (first < ELEMENTS) store_vector(args.y + first, translate_slice(x[row], first % WIDTH));
    }
}
