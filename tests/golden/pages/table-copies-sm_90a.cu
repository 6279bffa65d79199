// table:elements=16777216:x_type=int8:out_type=int8
//
//   y = table[the byte of x]
//
// target    sm_90a
// config    table threads=256 vector=16 unroll=4 rounds=4 copies=32
// launch    table<<<256x1x1, 256, 8192 B>>> when: call

@@ // The problem.
ELEMENTS=16777216
constexpr int WORDS = 64;  // words of the table

@@ // The config.
THREADS=256 VECTOR=16 UNROLL=4 ROUNDS=4 COPIES=32

@@ // Derived values.
constexpr int ROWS = 16;  // rows of vectors per block
SMEM_BYTES=8192

// The kernel's only parameter.
struct Arguments {
    const X* x;  // input
    const Output* table;  // output for each byte
    Output* y;  // output; may overwrite x
};

// COPIES copies of the table, interleaved by words: neighbouring lanes read their own copies, in different
// banks.
struct Shared { unsigned words[WORDS * COPIES]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

__device__ __forceinline__ void fill_shared(const Arguments& args) {
    const unsigned* const words = reinterpret_cast<const unsigned*>(args.table);
    for (unsigned i = tile::thread(); i < WORDS * COPIES; i += THREADS) {
        tile::shared_memory<Shared>().words[i] = tile::load(words + i / COPIES);
    }
}

// Looks up an element; `copy` is the start of this lane's copy of the table.
__device__ __forceinline__ Output look_up(const unsigned char* copy, X element) {
    const unsigned code = static_cast<unsigned char>(element);
    return static_cast<Output>(copy[code / 4 * (4 * COPIES) + code % 4]);
}

__device__ __forceinline__ Vector<Output> look_up_vector(const unsigned char* copy, const Vector<X>& x) {
    Vector<Output> y;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) y.element[i] = look_up(copy, x.element[i]);
    return y;
}

// A thread loads UNROLL vectors before it looks up the first. Elements that fill no vector are looked up one
// by one.
extern "C" __global__ void __launch_bounds__(THREADS) table(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    fill_shared(args);
    tile::barrier();
    const unsigned* const first_word = tile::shared_memory<Shared>().words + tile::thread() % COPIES;
    const unsigned char* const copy = reinterpret_cast<const unsigned char*>(first_word);
    for (int round = 0; round < ROUNDS; ++round) {
        Vector<X> x[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const unsigned first = first_of_row(round * UNROLL + i);
            if (first + VECTOR <= ELEMENTS) x[i] = load_vector(args.x + first);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const unsigned first = first_of_row(round * UNROLL + i);
            if (first + VECTOR <= ELEMENTS) {
                store_vector(args.y + first, look_up_vector(copy, x[i]));
                continue;
            }
            for (unsigned at = first; at < ELEMENTS; ++at) args.y[at] = look_up(copy, args.x[at]);
        }
    }
}
