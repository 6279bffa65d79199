// matmul:m=197:n=192:k=300:in=uint8*59100,int8*57600!,uint8*1,int32*192!,float32*192!:out=int8:
//     do=t0=x0[m0*300+k0];t1=x2[0];t2=subtract(t0,t1);t3=x1[n0*300+k0];t4=multiply(t2,t3);t5=sum_of(t4);t6=x3[n0];t7=add(t5,t6);t8=to_float32(t7);t9=x4[n0];t10=multiply(t8,t9);t11=round(t10);t12=minimum(127.0,t11);t13=maximum(-128.0,t12);t14=to_int32(t13)
//
//   t0 = x0[m0 * 300 + k0]
//   t1 = x2[0]
//   t2 = subtract(t0, t1)
//   t3 = x1[n0 * 300 + k0]
//   t4 = multiply(t2, t3)
//   t5 = sum_of(t4)
//   t6 = x3[n0]
//   t7 = add(t5, t6)
//   t8 = to_float32(t7)
//   t9 = x4[n0]
//   t10 = multiply(t8, t9)
//   t11 = round(t10)
//   t12 = minimum(127.0, t11)
//   t13 = maximum(-128.0, t12)
//   t14 = to_int32(t13)
//   y = t14
//
// target    sm_90a
// config    matmul_mma tile_m=16 tile_n=16 warp_m=16 warp_n=8 slab=128
// launch    matmul_mma<<<156x1x1, 64, 16384 B>>> when: call

@@ // The problem.
M=197 N=192 DEPTH=300

@@ // The config.
constexpr int TILE_M = 16;
constexpr int TILE_N = 16;
constexpr int WARP_M = 16;
constexpr int WARP_N = 8;
constexpr int SLAB = 128;

// Derived values.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 64;
constexpr int ATOM_M = 16;  // rows of one instruction
constexpr int ATOM_N = 8;  // columns of one instruction
constexpr int K_BLOCK = 32;  // bytes of the sums per fragment
constexpr int TILE_K = 256;  // bytes per row of a slab
[[maybe_unused]] constexpr bool X_SIGNED = true;
[[maybe_unused]] constexpr bool W_SIGNED = true;
constexpr int TILES_M = 13;  // blocks per column of a batch
constexpr int TILES_N = 12;  // blocks per row of a batch
constexpr int VECTOR = 4;  // neighbours along k that are computed together
constexpr bool LEFT_ALONG_K = true;  // neighbours in memory
constexpr bool RIGHT_ALONG_K = true;  // neighbours in memory
constexpr bool WRITE_ALONG_M = false;  // neighbours in the output
constexpr int SLABS = 3;
constexpr int EXACT_SLABS = 4;  // slabs whose sums are exact in fp32
constexpr int BUFFERS = 2;
constexpr int SMEM_BYTES = 16384;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // uint8*59100
    const X1* x1;  // int8*57600!
    const X2* x2;  // uint8*1
    const X3* x3;  // int32*192!
    const X4* x4;  // float32*192!
    Output* y;  // output
};

using Term = int;  // in which sums are given on
using Sum = float;       // in which the instruction adds

constexpr int ATOMS_M = WARP_M / ATOM_M, ATOMS_N = WARP_N / ATOM_N;
constexpr int ROWS_OF_LANE = ATOMS_M * LANE_PIXELS, COLUMNS_OF_LANE = ATOMS_N * LANE_CHANNELS;

// Maps a row of the right factor's slab to its column of the tile: a lane ends up with neighbouring columns
// across all its atoms.
__device__ __forceinline__ int column_of_row(unsigned row) {
    const unsigned atom = row % WARP_N / ATOM_N;
    return row / WARP_N * WARP_N + lane_of_channel(row % ATOM_N) * COLUMNS_OF_LANE + atom * LANE_CHANNELS +
           index_of_channel(row % ATOM_N);
}

__device__ __forceinline__ int row_of_left(int row) { return row; }
__device__ __forceinline__ int row_of_right(int row) { return column_of_row(row); }

// The left factor has M rows, the right one N columns. Each computes VECTOR terms at a time, neighbours along
// k of which `first` is the first. Neighbouring threads read neighbours along k, or across it.
struct Left {
    static constexpr int TILE = TILE_M, EXTENT = M, WIDTH = DEPTH;
    static constexpr bool ALONG_K = LEFT_ALONG_K;
    static __device__ __forceinline__ int place_of(int row) { return row_of_left(row); }

    static __device__ __forceinline__ void terms(
        [[maybe_unused]] const Arguments& args, [[maybe_unused]] int batch, [[maybe_unused]] int at,
        [[maybe_unused]] int first, Sum (&term)[VECTOR]) {
        [[maybe_unused]] const int m0 = at;
        [[maybe_unused]] const int first_k0 = first;
        const tile::Words<1> v0 = tile::load_words<1>(args.x0 + (m0 * 300 + first_k0));
#pragma unroll
        for (int lane = 0; lane < VECTOR; ++lane) {
            [[maybe_unused]] const int k0 = first_k0 + lane;
            const int t0 = tile::byte_as_int<X0>(v0.word[lane / 4], lane % 4);
            const int t1 = tile::load(args.x2);
            const int t2 = scalar::subtract(t0, t1);
            term[lane] = static_cast<Sum>(t2);
        }
    }
};
struct Right {
    static constexpr int TILE = TILE_N, EXTENT = N, WIDTH = DEPTH;
    static constexpr bool ALONG_K = RIGHT_ALONG_K;
    static __device__ __forceinline__ int place_of(int row) { return row_of_right(row); }

@@ 3b2dc6b9 in pages/matmul_mma-bytes-sm_90a.cu:     static __device__ __forceinline__ void terms(
@@ 4+1
        [[maybe_unused]] const int n0 = at;
@@ 6+1
        const tile::Words<1> v1 = tile::load_words<1>(args.x1 + (n0 * 300 + first_k0));
@@ 10+4
            const int t0 = tile::byte_as_int<X1>(v1.word[lane / 4], lane % 4);
            term[lane] = static_cast<Sum>(t0);
@@ 17+4

// SLAB terms in fp16 of each row of the two tiles.
struct Slabs {
    unsigned char left[BUFFERS][TILE_M * TILE_K];
    unsigned char right[BUFFERS][TILE_N * TILE_K];
};
// The padding spreads the rows of a column over the banks.
union Shared {
    Slabs slabs;
    Term totals[TILE_M][TILE_N + 1];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// A thread's chunks of a slab, on their way from device memory to shared memory. A chunk has eight terms.
template <class Side>
struct Fetched { tile::Words<4> chunk[(Side::TILE * CHUNKS + THREADS - 1) / THREADS]; };

// Computes the terms of a slab. A row beyond the last one reads the last one and is never written; behind the
// last k, terms are 0.
template <class Side>
__device__ __forceinline__ void fetch(
    Fetched<Side>& fetched, const Arguments& args, int batch, int first, int first_k) {
    for_each_part<Side>([&](int i, int row, int chunk) {
        int at = first + Side::place_of(row);
        if (Side::EXTENT % Side::TILE != 0 && at >= Side::EXTENT) at = Side::EXTENT - 1;
        fetched.chunk[i] = Side::chunk(args, batch, at, first_k + chunk * 8);
    });
}

template <class Side>
__device__ __forceinline__ void stage(unsigned char* slab, const Fetched<Side>& fetched) {
    for_each_part<Side>([&](int i, int row, int chunk) {
        *reinterpret_cast<tile::Words<4>*>(slab + swizzled_offset(row / 8 * 8, row % 8, chunk)) =
            fetched.chunk[i];
    });
}

// Computes an element of the output from its sum.
__device__ __forceinline__ void finish(
    const Arguments& args, [[maybe_unused]] const Common& common, [[maybe_unused]] int batch,
    [[maybe_unused]] int row, [[maybe_unused]] int column, Term sum) {
    [[maybe_unused]] const int m0 = row;
    [[maybe_unused]] const int n0 = column;
    const Term t5 = sum;
    const int t6 = tile::load(args.x3 + n0);
    const int t7 = scalar::add(t5, t6);
    const float t8 = scalar::to_float32(t7);
    const float t9 = tile::load(args.x4 + n0);
    const float t10 = scalar::multiply(t8, t9);
    const float t11 = scalar::round(t10);
    const float t12 = scalar::minimum(127.0f, t11);
    const float t13 = scalar::maximum(-128.0f, t12);
    const int t14 = scalar::to_int32(t13);
    args.y[m0 * 192 + n0] = static_cast<Output>(t14);
}

template <class Element>
struct Atoms { Element of[ATOMS_M][ATOMS_N][D_REGISTERS]; };

// Adds the products of a slab.
__device__ __forceinline__ void multiply(
    Atoms<Sum>& sums, unsigned char* left, unsigned char* right, int first_row, int first_column) {
#pragma unroll
    for (int block = 0; block < TILE_K / K_BLOCK; ++block) {
        XFragment x[ATOMS_M];
        WFragment w[ATOMS_N];
        load_fragments(left, first_row, block, x);
        load_fragments(right, first_column, block, w);
#pragma unroll
        for (int i = 0; i < ATOMS_M; ++i) {
#pragma unroll
            for (int j = 0; j < ATOMS_N; ++j) multiply_add(x[i], w[j], sums.of[i][j]);
        }
    }
}

// Moves the sums of the last slabs to the totals.
__device__ __forceinline__ void add(Atoms<Term>& totals, Atoms<Sum>& sums) {
#pragma unroll
    for (int i = 0; i < ATOMS_M; ++i) {
#pragma unroll
        for (int j = 0; j < ATOMS_N; ++j) {
#pragma unroll
            for (int d = 0; d < D_REGISTERS; ++d) {
                totals.of[i][j][d] = scalar::add(totals.of[i][j][d], static_cast<Term>(sums.of[i][j][d]));
                sums.of[i][j][d] = 0.0f;
            }
        }
    }
}

// Gives the totals to all threads: those that write neighbours in the output hold none in registers.
__device__ __forceinline__ void share(
    Shared& shared, const Atoms<Term>& totals, int first_row, int first_column) {
#pragma unroll
    for (int i = 0; i < ROWS_OF_LANE; ++i) {
        const int row = first_row + i / LANE_PIXELS * ATOM_M + pixel_of_lane(i % LANE_PIXELS);
#pragma unroll
        for (int j = 0; j < COLUMNS_OF_LANE; ++j) {
            const int at = register_of(i % LANE_PIXELS, j % LANE_CHANNELS);
            shared.totals[row][first_column + channel_lane() * COLUMNS_OF_LANE + j] =
                totals.of[i / LANE_PIXELS][j / LANE_CHANNELS][at];
        }
    }
}

// Neighbours in the output, the lines of a tile, and the threads that write one.
constexpr int LINE = WRITE_ALONG_M ? TILE_M : TILE_N, LINES = TILE_M * TILE_N / LINE;
constexpr int ABREAST = LINE < THREADS ? LINE : THREADS;

// A block computes a tile of TILE_M x TILE_N outputs of one batch. Neighbouring threads write neighbours.
extern "C" __global__ void __launch_bounds__(THREADS) matmul_mma(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    Shared& shared = tile::shared_memory<Shared>();
    const Place place;
    const int first_row = tile::warp() / (TILE_N / WARP_N) * WARP_M;
    const int first_column = tile::warp() % (TILE_N / WARP_N) * WARP_N;

    Atoms<Sum> sums = {};
    Atoms<Term> totals = {};
    for_each_slab(args, shared.slabs, place, [&](int slab, int buffer) {
        multiply(sums, shared.slabs.left[buffer], shared.slabs.right[buffer], first_row, first_column);
        if (EXACT_SLABS < SLABS && slab % EXACT_SLABS == EXACT_SLABS - 1) add(totals, sums);
    });
    add(totals, sums);
    const Common common = common_of(args);
    tile::barrier();
    share(shared, totals, first_row, first_column);
    tile::barrier();
    for (int inner = tile::thread() % ABREAST; inner < LINE; inner += ABREAST) {
#pragma unroll 4
        for (int outer = tile::thread() / ABREAST; outer < LINES; outer += THREADS / ABREAST) {
            const int i = WRITE_ALONG_M ? inner : outer, j = WRITE_ALONG_M ? outer : inner;
            const int row = place.row + i, column = place.column + j;
            if (row < M && column < N) finish(args, common, place.batch, row, column, shared.totals[i][j]);
        }
    }
}
