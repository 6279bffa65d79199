// matmul:batch=1:m=8,28,28:n=64:k=3,3,64:in=float32*1605632,float32*36864!,float32*64!:out=float32:
//     order=m0,m1,m2,b0,n0:
//     do=t0=guarded(x0[m0*200704+m1*7168+k0*3584+m2*128+k1*64+k2-3648],0.0,m1*2+k0-1,56,m2*2+k1-1,56);t1=x1[n0*576+k0*192+k1*64+k2];t2=multiply(t0,t1);t3=sum_of(t2);t4=x2[n0];t5=add(t3,t4)
//
//   t0 = guarded(x0[m0 * 200704 + m1 * 7168 + k0 * 3584 + m2 * 128 + k1 * 64 + k2 - 3648], 0.0, m1 * 2 + k0 - 1, 56, m2 * 2 + k1 - 1, 56)
//   t1 = x1[n0 * 576 + k0 * 192 + k1 * 64 + k2]
//   t2 = multiply(t0, t1)
//   t3 = sum_of(t2)
//   t4 = x2[n0]
//   t5 = add(t3, t4)
//   y = t5
//
// target    sm_90a
// config    matmul threads=128 tile_m=32 tile_n=32 thread_m=4 thread_n=8 slab=32
// launch    matmul<<<392x1x1, 128, 18432 B>>> when: call

@@ // The problem.
M=6272 N=64 DEPTH=576

@@ // The config.
THREADS=128
constexpr int TILE_M = 32;
constexpr int TILE_N = 32;
constexpr int THREAD_M = 4;
constexpr int THREAD_N = 8;
constexpr int SLAB = 32;

@@ // Derived values.
constexpr int TILES_M = 196;  // blocks per column of a batch
constexpr int TILES_N = 2;  // blocks per row of a batch
ROW_THREADS=8 COLUMN_THREADS=4 LEFT_VECTOR=4 RIGHT_VECTOR=4 LEFT_ALONG_K=true RIGHT_ALONG_K=true
WRITE_ALONG_M=false
constexpr int SLABS = 18;
BUFFERS=2 SMEM_BYTES=18432

using X0 = float;
using X1 = float;
using X2 = float;
using Output = float;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // float32*1605632
    const X1* x1;  // float32*36864!
    const X2* x2;  // float32*64!
    Output* y;  // output
};

using Term = float;  // in which terms are multiplied and added
constexpr int PARTS = SLAB;  // of a row of a slab, each of which a thread fetches at a time

// The left factor has M rows, the right one N columns. Threads fetch neighbours along k, or across it.
struct Left {
    static constexpr int TILE = TILE_M, EXTENT = M, VECTOR = LEFT_VECTOR;
    static constexpr bool ALONG_K = LEFT_ALONG_K;
    static __device__ __forceinline__ Term none() { return Term(0); }
    static __device__ __forceinline__ Term term(
        [[maybe_unused]] const Arguments& args, [[maybe_unused]] int batch, [[maybe_unused]] int row,
        [[maybe_unused]] int k) {
        [[maybe_unused]] const int m2 = row % 28;
        [[maybe_unused]] const int m1 = row / 28 % 28;
        [[maybe_unused]] const int m0 = row / 28 / 28;
        [[maybe_unused]] const int k2 = k % 64;
        [[maybe_unused]] const int k1 = k / 64 % 3;
        [[maybe_unused]] const int k0 = k / 64 / 3;
        const float t0 = static_cast<unsigned>(m1 * 2 + k0 - 1) < 56u && static_cast<unsigned>(m2 * 2 + k1 - 1) < 56u ? tile::load(args.x0 + (m0 * 200704 + m1 * 7168 + k0 * 3584 + m2 * 128 + k1 * 64 + k2 - 3648)) : 0.0f;
        return t0;
    }
};
struct Right {
    static constexpr int TILE = TILE_N, EXTENT = N, VECTOR = RIGHT_VECTOR;
    static constexpr bool ALONG_K = RIGHT_ALONG_K;
    static __device__ __forceinline__ Term none() { return Term(-0.0f); }
    static __device__ __forceinline__ Term term(
        [[maybe_unused]] const Arguments& args, [[maybe_unused]] int batch, [[maybe_unused]] int column,
        [[maybe_unused]] int k) {
        [[maybe_unused]] const int n0 = column;
        [[maybe_unused]] const int k2 = k % 64;
        [[maybe_unused]] const int k1 = k / 64 % 3;
        [[maybe_unused]] const int k0 = k / 64 / 3;
        const float t0 = tile::load(args.x1 + (n0 * 576 + k0 * 192 + k1 * 64 + k2));
        return t0;
    }
};

__device__ __forceinline__ Term add_product(Term a, Term b, Term sum) {
    return tile::fma(a, b, sum);
}



// Neighbouring rows or columns, which a thread reads from shared memory with one load.
template <class Side>
struct alignas(Side::VECTOR * sizeof(Term)) Terms { Term term[Side::VECTOR]; };

// SLAB terms of each row and column of a tile. The padding spreads the terms of a row over the banks.
template <class Side>
using Slab = Terms<Side>[SLAB][Side::TILE / Side::VECTOR + 1];
struct Shared {
    Slab<Left> left[BUFFERS];
    Slab<Right> right[BUFFERS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// A thread's terms of a slab, on their way from device memory to shared memory.
template <class Side>
struct Fetched { Term term[(Side::TILE * SLAB + THREADS - 1) / THREADS]; };

// Fetches a slab. A row beyond the last one reads the last one and is never written. Behind the last k, terms
// are 0 on the left and -0 on the right: their product is -0, which changes no sum.
template <class Side>
__device__ __forceinline__ void fetch(
    Fetched<Side>& fetched, const Arguments& args, int batch, int first, int first_k) {
    for_each_part<Side>([&](int i, int at, int k) {
        at += first, k += first_k;
        if (Side::EXTENT % Side::TILE != 0 && at >= Side::EXTENT) at = Side::EXTENT - 1;
        const bool is_behind = DEPTH % SLAB != 0 && k >= DEPTH;
        const Term term = Side::term(args, batch, at, is_behind ? DEPTH - 1 : k);
        fetched.term[i] = is_behind ? Side::none() : term;
    });
}

template <class Side>
__device__ __forceinline__ void stage(Slab<Side>& slab, const Fetched<Side>& fetched) {
    for_each_part<Side>([&](int i, int at, int k) {
        slab[k][at / Side::VECTOR].term[at % Side::VECTOR] = fetched.term[i];
    });
}

// Computes an element of the output from its sum.
__device__ __forceinline__ void finish(
    const Arguments& args, [[maybe_unused]] const Common& common, [[maybe_unused]] int batch,
    [[maybe_unused]] int row, [[maybe_unused]] int column, Term sum) {
    [[maybe_unused]] const int m2 = row % 28;
    [[maybe_unused]] const int m1 = row / 28 % 28;
    [[maybe_unused]] const int m0 = row / 28 / 28;
    [[maybe_unused]] const int n0 = column;
    const Term t3 = sum;
    const float t4 = tile::load(args.x2 + n0);
    const float t5 = scalar::add(t3, t4);
    args.y[m0 * 50176 + m1 * 1792 + m2 * 64 + n0] = t5 == t5 ? t5 : tile::as_float(0x7fc00000u);
}

// A thread's rows are vectors, ROW_THREADS vectors apart; its columns likewise.
__device__ __forceinline__ int row_of(int y, int i) {
    return (i / LEFT_VECTOR * ROW_THREADS + y) * LEFT_VECTOR + i % LEFT_VECTOR;
}
__device__ __forceinline__ int column_of(int x, int j) {
    return (j / RIGHT_VECTOR * COLUMN_THREADS + x) * RIGHT_VECTOR + j % RIGHT_VECTOR;
}

using Sums = Term[THREAD_M][THREAD_N];

// Adds the products of a slab, k after k.
__device__ __forceinline__ void multiply(
    Sums& sums, const Slab<Left>& left, const Slab<Right>& right, int y, int x) {
#pragma unroll 4
    for (int k = 0; k < SLAB; ++k) {
        Terms<Left> a[THREAD_M / LEFT_VECTOR];
        Terms<Right> b[THREAD_N / RIGHT_VECTOR];
#pragma unroll
        for (int i = 0; i < THREAD_M / LEFT_VECTOR; ++i) a[i] = left[k][i * ROW_THREADS + y];
#pragma unroll
        for (int j = 0; j < THREAD_N / RIGHT_VECTOR; ++j) b[j] = right[k][j * COLUMN_THREADS + x];
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            const Term term = a[i / LEFT_VECTOR].term[i % LEFT_VECTOR];
#pragma unroll
            for (int j = 0; j < THREAD_N; ++j) {
                sums[i][j] = add_product(term, b[j / RIGHT_VECTOR].term[j % RIGHT_VECTOR], sums[i][j]);
            }
        }
    }
}

// A block computes a tile of TILE_M x TILE_N outputs of one batch.
extern "C" __global__ void __launch_bounds__(THREADS) matmul(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    Shared& shared = tile::shared_memory<Shared>();
    const Place place;
    // Neighbouring threads write neighbours in the output.
    const int y = WRITE_ALONG_M ? tile::thread() % ROW_THREADS : tile::thread() / COLUMN_THREADS;
    const int x = WRITE_ALONG_M ? tile::thread() / ROW_THREADS : tile::thread() % COLUMN_THREADS;
    const bool multiplies = tile::thread() < ROW_THREADS * COLUMN_THREADS;

    Sums sums = {};
    for_each_slab(args, shared, place, [&](int, int buffer) {
        if (multiplies) multiply(sums, shared.left[buffer], shared.right[buffer], y, x);
    });
    if (!multiplies) return;
    const Common common = common_of(args);
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        const int row = place.row + row_of(y, i);
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
            const int column = place.column + column_of(x, j);
            if (row < M && column < N) finish(args, common, place.batch, row, column, sums[i][j]);
        }
    }
}
