// matmul:batch=2,3:m=49:n=49:k=32:in=uint8*28224,uint8*28224,uint8*1!,float32*14406:out=uint8:
//     do=t0=x0[b0*14112+m0*288+b1*32+k0];t1=x2[0];t2=subtract(t0,t1);t3=to_float32(t2);t4=x1[b0*14112+n0*288+b1*32+k0+96];t5=subtract(t4,100);t6=to_float32(t5);t7=multiply(t3,t6);t8=sum_of(t7);t9=to_float32(t8);t10=multiply(t9,0.00039999998989515007);t11=x3[b0*7203+b1*2401+m0*49+n0];t12=add(t10,t11);t13=round(t12);t14=add(t13,120.0);t15=maximum(t14,0.0);t16=minimum(t15,255.0);t17=to_int32(t16)+reduce:
//     rows=294:columns=49:in=uint8*14406,float32*256!:out=uint8:
//     do=t0=x0[r0*49+c0];t1=maximum_of(t0);t2=subtract(t0,t1);t3=add(t2,255);t4=bit_and(t3,255);t5=looked_up(x1,t4);t6=multiply(t5,t5);t7=sum_of(t6);t8=add(t7,1.0);t9=divide(t6,t8);t10=multiply(t9,900.0);t11=minimum(t10,255.0);t12=nearest(t11)+matmul:
//     batch=2,3:m=49:n=32:k=49:in=uint8*14406,uint8*28224,uint8*1!:out=uint8:order=b0,m0,b1,n0:
//     do=t0=x0[b0*7203+b1*2401+m0*49+k0];t1=subtract(t0,3);t2=to_float32(t1);t3=x1[b0*14112+k0*288+b1*32+n0+192];t4=x2[0];t5=subtract(t3,t4);t6=to_float32(t5);t7=multiply(t2,t6);t8=sum_of(t7);t9=to_float32(t8);t10=multiply(t9,0.0020000000949949026);t11=round(t10);t12=add(t11,128.0);t13=maximum(t12,0.0);t14=minimum(t13,255.0);t15=to_int32(t14)
//
//   t0 = x0[b0 * 14112 + m0 * 288 + b1 * 32 + k0]
//   t1 = x2[0]
//   t2 = subtract(t0, t1)
//   t3 = to_float32(t2)
//   t4 = x1[b0 * 14112 + n0 * 288 + b1 * 32 + k0 + 96]
//   t5 = subtract(t4, 100)
//   t6 = to_float32(t5)
//   t7 = multiply(t3, t6)
//   t8 = sum_of(t7)
//   t9 = to_float32(t8)
//   t10 = multiply(t9, 0.00039999998989515007)
//   t11 = x3[b0 * 7203 + b1 * 2401 + m0 * 49 + n0]
//   t12 = add(t10, t11)
//   t13 = round(t12)
//   t14 = add(t13, 120.0)
//   t15 = maximum(t14, 0.0)
//   t16 = minimum(t15, 255.0)
//   t17 = to_int32(t16)
//   score = t17
//   t0 = x7[r0 * 49 + c0]
//   t1 = maximum_of(t0)
//   t2 = subtract(t0, t1)
//   t3 = add(t2, 255)
//   t4 = bit_and(t3, 255)
//   t5 = looked_up(x4, t4)
//   t6 = multiply(t5, t5)
//   t7 = sum_of(t6)
//   t8 = add(t7, 1.0)
//   t9 = divide(t6, t8)
//   t10 = multiply(t9, 900.0)
//   t11 = minimum(t10, 255.0)
//   t12 = nearest(t11)
//   weight = t12
//   t0 = x8[b0 * 7203 + b1 * 2401 + m0 * 49 + k0]
//   t1 = subtract(t0, 3)
//   t2 = to_float32(t1)
//   t3 = x5[b0 * 14112 + k0 * 288 + b1 * 32 + n0 + 192]
//   t4 = x6[0]
//   t5 = subtract(t3, t4)
//   t6 = to_float32(t5)
//   t7 = multiply(t2, t6)
//   t8 = sum_of(t7)
//   t9 = to_float32(t8)
//   t10 = multiply(t9, 0.0020000000949949026)
//   t11 = round(t10)
//   t12 = add(t11, 128.0)
//   t13 = maximum(t12, 0.0)
//   t14 = minimum(t13, 255.0)
//   t15 = to_int32(t14)
//   y = t15
//
// target    sm_90a
// config    attention warps=2 sharing=1 slab=32 resident=1
// launch    attention<<<12x1x1, 64, 10240 B>>> when: call

@@ // The problem.
constexpr int M = 49;  // rows of a batch
constexpr int N = 49;  // keys of a batch
constexpr int DEPTH = 32;  // products per score
constexpr int COLUMNS = 32;  // of the values

// Derived values.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 64;
[[maybe_unused]] constexpr int WARPS = 2;  // of a block
constexpr int SHARING = 1;  // warps that share rows
constexpr int RESIDENT = 1;  // blocks that share an SM
constexpr int ATOM_M = 16;  // rows of one instruction
constexpr int ATOM_N = 8;  // columns of one instruction
constexpr int K_BLOCK = 32;  // bytes of the sums per fragment
constexpr int SLAB = 32;  // terms of a row that lie beside each other
constexpr int TILE_K = 64;  // bytes per row of a slab
[[maybe_unused]] constexpr bool X_SIGNED = true;
[[maybe_unused]] constexpr bool W_SIGNED = true;
constexpr int TILE_M = 32;  // rows per block
constexpr int TILES_M = 2;  // blocks per batch
constexpr int KEYS = 64;  // N, rounded up to whole steps of the second product and of all warps
constexpr int KEY_ROWS = 64;  // rows of keys in shared memory
constexpr int STEPS = 8;  // columns of the first product's instructions, per warp
constexpr int JUMPS = 8;  // vectors between two of the same lanes, of a thread
constexpr int SHUFFLED = 4;  // neighbours of a team that shuffle values
constexpr int LANES_LEFT = 1;  // lanes of each, once they did
constexpr int TEAM = 4;  // lanes that share a row
constexpr int SPAN = 2;  // neighbouring columns of a lane
constexpr int VECTOR = 2;
constexpr int ROWS_OF_THREAD = 1;  // of those that a lane reduces at a time
constexpr int SMEM_BYTES = 10240;

// Bytes as fp16 in one instruction for two: 1024 plus an unsigned byte has the byte as its lowest bits. What
// is subtracted from it holds the zero point as well, and the sign of signed bytes.
template <class Byte>
__device__ __forceinline__ unsigned subtrahend_of_bytes(int zero_point) {
    const float all = static_cast<float>(1024 + (Byte(-1) < Byte(0) ? 128 : 0) + zero_point);
    return half_pair(all, all);
}

// Returns bytes FIRST and FIRST + 1 of a word, without what is subtracted.
template <class Byte, int FIRST>
__device__ __forceinline__ unsigned halves_of_bytes(unsigned word, unsigned subtrahend) {
    if (Byte(-1) < Byte(0)) word ^= 0x80808080u;
    const unsigned pair = __byte_perm(word, 0x64646464u, 0x4040 + FIRST + (FIRST + 1) * 0x100);
    unsigned result;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(result) : "r"(pair), "r"(subtrahend));
    return result;
}

using X0 = unsigned char;
using X1 = unsigned char;
using X2 = unsigned char;
using X3 = float;
using X4 = float;
using X5 = unsigned char;
using X6 = unsigned char;
using Output = unsigned char;
using Score = unsigned char;
using Weight = unsigned char;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // uint8*28224
    const X1* x1;  // uint8*28224
    const X2* x2;  // uint8*1!
    const X3* x3;  // float32*14406
    const X4* x4;  // float32*256!
    const X5* x5;  // uint8*28224
    const X6* x6;  // uint8*1!
    Output* y;  // output
};

using Term = float;  // in which sums are given on
using Sum = float;       // in which the instruction adds

// A factor in shared memory: ROWS rows, of which the first EXTENT exist, of WIDTH terms each, in slabs.
// Rows of the scores.
struct Queries {
    static constexpr int ROWS = TILE_M, EXTENT = M, WIDTH = DEPTH;
    static constexpr int VECTOR = 8, SLABS = (WIDTH * 2 + TILE_K - 1) / TILE_K;
    static constexpr int UNDER_WAY = 16;  // chunks of a thread
    unsigned char slab[SLABS][ROWS * TILE_K];

    // Returns eight bytes of a row without their zero point, in fp16; those behind the last one are 0.
    static __device__ __forceinline__ tile::Words<4> chunk(
        const Arguments& args, [[maybe_unused]] int batch, [[maybe_unused]] int at, int chunk_first) {
        const int t0 = tile::load(args.x2);
        const unsigned zeros = tile::subtrahend_of_bytes<X0>(t0);
        tile::Words<4> words = {};
#pragma unroll
        for (int part = 0; part < 8; part += VECTOR) {
            [[maybe_unused]] const int first = chunk_first + part;
            if (WIDTH % SLAB != 0 && first >= WIDTH) continue;
            [[maybe_unused]] const int b1 = batch % 3;
            [[maybe_unused]] const int b0 = batch / 3;
            [[maybe_unused]] const int m0 = at;
            [[maybe_unused]] const int first_k0 = first;
            const tile::Words<2> v0 = tile::load_words<2>(args.x0 + (b0 * 14112 + m0 * 288 + b1 * 32 + first_k0));
#pragma unroll
            for (int word = 0; word < VECTOR / 4; ++word) {
                const int pair = part / 2 + 2 * word;
                words.word[pair] = tile::halves_of_bytes<X0, 0>(v0.word[word], zeros);
                words.word[pair + 1] = tile::halves_of_bytes<X0, 2>(v0.word[word], zeros);
            }
        }
        return words;
    }
};
// Columns of the scores.
struct Keys {
    static constexpr int ROWS = KEY_ROWS, EXTENT = N, WIDTH = DEPTH;
    static constexpr int VECTOR = 8, SLABS = (WIDTH * 2 + TILE_K - 1) / TILE_K;
    static constexpr int UNDER_WAY = 16;  // chunks of a thread
    unsigned char slab[SLABS][ROWS * TILE_K];

@@ ad7c71d8 in pages/attention-heads-beside-each-other-sm_90a.cu:     // Returns eight bytes of a row without their zero point, in fp16; those behind the last one are 0.
@@ 4+2
        
        const unsigned zeros = tile::subtrahend_of_bytes<X1>(100);
@@ 13+1
            [[maybe_unused]] const int n0 = at;
@@ 15+1
            const tile::Words<2> v0 = tile::load_words<2>(args.x1 + (b0 * 14112 + n0 * 288 + b1 * 32 + first_k0 + 96));
@@ 19+2
                words.word[pair] = tile::halves_of_bytes<X1, 0>(v0.word[word], zeros);
                words.word[pair + 1] = tile::halves_of_bytes<X1, 2>(v0.word[word], zeros);
@@ 26+3
// Rows that the weights multiply.
struct Values {
    static constexpr int ROWS = KEY_ROWS, EXTENT = N, WIDTH = COLUMNS;

@@ ad7c71d8 in pages/attention-heads-beside-each-other-sm_90a.cu:     // Returns eight bytes of a row without their zero point, in fp16; those behind the last one are 0.
@@ 4+2
        const int t0 = tile::load(args.x6);
        const unsigned zeros = tile::subtrahend_of_bytes<X5>(t0);
@@ 13+3
            [[maybe_unused]] const int k0 = at;
            [[maybe_unused]] const int first_n0 = first;
            const tile::Words<2> v0 = tile::load_words<2>(args.x5 + (b0 * 14112 + k0 * 288 + b1 * 32 + first_n0 + 192));
@@ 19+2
                words.word[pair] = tile::halves_of_bytes<X5, 0>(v0.word[word], zeros);
                words.word[pair + 1] = tile::halves_of_bytes<X5, 2>(v0.word[word], zeros);
@@ 26+6
// The warps that share rows take steps of the keys in turn, and the keys of a warp are neighbours in shared
// memory. Maps a row there to its key.
__device__ __forceinline__ int key_of(int row) {
    return SHARING == 1 ? row : (row / 8 % STEPS * SHARING + row / 8 / STEPS) * 8 + row % 8;
}

// Computes the terms of a factor, whose rows in memory `place` returns. A row beyond the last one reads the
// last one.
template <class Side, class Place>
__device__ __forceinline__ void stage(const Arguments& args, Side& side, int batch, Place place) {
    constexpr int COUNT = Side::ROWS * Side::SLABS * PARTS, PER_THREAD = (COUNT + THREADS - 1) / THREADS;
#pragma unroll(PER_THREAD < Side::UNDER_WAY ? PER_THREAD : Side::UNDER_WAY)
    for (int i = 0; i < PER_THREAD; ++i) {
        const int number = i * THREADS + tile::thread();
        if (COUNT % THREADS != 0 && number >= COUNT) continue;
        const int row = number / (Side::SLABS * PARTS), part = number % (Side::SLABS * PARTS);
        int at = place(row);
        if (Side::EXTENT % Side::ROWS != 0 && at >= Side::EXTENT) at = Side::EXTENT - 1;
        const int offset = swizzled_offset(row / 8 * 8, row % 8, part % PARTS);
        *reinterpret_cast<tile::Words<4>*>(side.slab[part / PARTS] + offset) =
            Side::chunk(args, batch, at, part * 8);
    }
}

// t1 = maximum_of(t0)
struct Maximum1 {
    using Value = int;
    static __device__ __forceinline__ Value begin() { return (-2147483647 - 1); }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return scalar::maximum(a, b); }
    static __device__ __forceinline__ Value of(int element, [[maybe_unused]] int column) {
        return element;
    }
    static __device__ __forceinline__ int result(Value a) { return a; }
};

// t7 = sum_of(t6)
struct Sum7 {
    using Value = float;
    static __device__ __forceinline__ Value begin() { return 0.0f; }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return scalar::add(a, b); }
    static __device__ __forceinline__ Value of(float element, [[maybe_unused]] int column) {
        return element;
    }
    static __device__ __forceinline__ float result(Value a) { return a; }
};

@@ 18786af6 in pages/reduce-normalization-gfx942.hip: // The values of a thread's rows.
@@ 3+4
    int t1[ROWS_OF_THREAD];
@@ 9+2

// The values that a lane keeps of its scores between passes.
struct Kept {
    float t6[STEPS][VECTOR];
};

// The scores that a lane has of a row: two neighbours of every eight.
struct Scores { Vector<Score> v0[STEPS]; };

// Columns of the values, by the instruction's; pairs of them are loaded together.
constexpr int ATOMS = (COLUMNS + 2 * ATOM_N - 1) / (2 * ATOM_N) * 2;
struct Sums { Sum of[ATOMS][D_REGISTERS]; };

// A warp has its rows for itself: it gives nothing to others, and finishes all of its sums.
struct Parts {};
__device__ __forceinline__ void add_warps([[maybe_unused]] Parts& parts, [[maybe_unused]] Sums& sums) {}
__device__ __forceinline__ bool is_finished_here([[maybe_unused]] int pixel, [[maybe_unused]] int atom) {
    return true;
}

struct Shared : Parts {
    Queries queries;
    Keys keys;
    Values values;
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Values that all scores have in common.
struct CommonOfScores {  };
__device__ __forceinline__ CommonOfScores common_of_scores([[maybe_unused]] const Arguments& args) {
    CommonOfScores common;
    
    return common;
}
// Returns the score of a row and a key from the sum of their products.
__device__ __forceinline__ Score score_of(
    [[maybe_unused]] const Arguments& args, [[maybe_unused]] const CommonOfScores& common,
    [[maybe_unused]] int batch, [[maybe_unused]] int row, [[maybe_unused]] int column, Term sum) {
    [[maybe_unused]] const int b1 = batch % 3;
    [[maybe_unused]] const int b0 = batch / 3;
    [[maybe_unused]] const int m0 = row;
    [[maybe_unused]] const int n0 = column;
    const Term t8 = sum;
    const float t9 = scalar::to_float32(t8);
    const float t10 = scalar::multiply(t9, 0.00039999998989515007f);
    const float t11 = tile::load(args.x3 + (b0 * 7203 + b1 * 2401 + m0 * 49 + n0));
    const float t12 = scalar::add(t10, t11);
    const float t13 = scalar::round(t12);
    const float t14 = scalar::add(t13, 120.0f);
    const float t15 = scalar::maximum(t14, 0.0f);
    const float t16 = scalar::minimum(t15, 255.0f);
    const int t17 = scalar::to_int32(t16);
    return static_cast<Output>(t17);
}

// Returns a weight as a factor of the values.
__device__ __forceinline__ Sum factor_of(
    [[maybe_unused]] const Arguments& args, [[maybe_unused]] int batch, [[maybe_unused]] int row,
    [[maybe_unused]] int key, Weight weight) {
    [[maybe_unused]] const int b1 = batch % 3;
    [[maybe_unused]] const int b0 = batch / 3;
    [[maybe_unused]] const int m0 = row;
    [[maybe_unused]] const int k0 = key;
    const int t0 = weight;
    const int t1 = scalar::subtract(t0, 3);
    const float t2 = scalar::to_float32(t1);
    return static_cast<Sum>(t2);
}

// Computes an element of the output from its sum.
__device__ __forceinline__ void finish(
    const Arguments& args, [[maybe_unused]] const Common& common, [[maybe_unused]] int batch,
    [[maybe_unused]] int row, [[maybe_unused]] int column, Term sum) {
    [[maybe_unused]] const int b1 = batch % 3;
    [[maybe_unused]] const int b0 = batch / 3;
    [[maybe_unused]] const int m0 = row;
    [[maybe_unused]] const int n0 = column;
    const Term t8 = sum;
    const float t9 = scalar::to_float32(t8);
    const float t10 = scalar::multiply(t9, 0.0020000000949949026f);
    const float t11 = scalar::round(t10);
    const float t12 = scalar::add(t11, 128.0f);
    const float t13 = scalar::maximum(t12, 0.0f);
    const float t14 = scalar::minimum(t13, 255.0f);
    const int t15 = scalar::to_int32(t14);
    args.y[b0 * 4704 + m0 * 96 + b1 * 32 + n0] = static_cast<Output>(t15);
}

// The first of two neighbouring columns that a lane has of a step of its warp.
__device__ __forceinline__ int first_column(int step) {
    const int of_all = step * SHARING + tile::warp() % SHARING;
    return (of_all * TEAM + tile::lane() % TEAM) * SPAN;
}

// Steps of a warp, rounded up to those of the second product: a last one has no keys, and the factor 0.
constexpr int EVEN_STEPS = (STEPS + 1) / 2 * 2;
// Returns the first row of a warp's keys and values in shared memory.
__device__ __forceinline__ int first_key_row() { return tile::warp() % SHARING * STEPS * ATOM_N; }

// Fragments along a row of the queries, and those of a slab.
constexpr int BLOCKS = (DEPTH * 2 + K_BLOCK - 1) / K_BLOCK, PER_SLAB = TILE_K / K_BLOCK;

// Computes the scores of a lane's two rows and the keys of its warp.
__device__ __forceinline__ void score(
    const Arguments& args, Shared& shared, int batch, const int (&row)[LANE_PIXELS],
    Scores (&scores)[LANE_PIXELS]) {
    const CommonOfScores common = common_of_scores(args);
    XFragment queries[BLOCKS][1];
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        load_fragments(
            shared.queries.slab[block / PER_SLAB], tile::warp() / SHARING * ATOM_M, block % PER_SLAB,
            queries[block]);
    }
#pragma unroll
    for (int step = 0; step < STEPS; step += 2) {
        Sum sums[2][D_REGISTERS] = {};
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            WFragment keys[2];
            load_fragments(
                shared.keys.slab[block / PER_SLAB], first_key_row() + step * ATOM_N, block % PER_SLAB, keys);
            multiply_add(queries[block][0], keys[0], sums[0]);
            multiply_add(queries[block][0], keys[1], sums[1]);
        }
#pragma unroll
        for (int atom = 0; atom < 2; ++atom) {
            if (step + atom == STEPS) continue;
#pragma unroll
            for (int i = 0; i < LANE_PIXELS; ++i) {
#pragma unroll
                for (int j = 0; j < SPAN; ++j) {
                    int column = first_column(step + atom) + j;
                    if (N % KEYS != 0 && column >= N) column = N - 1;
                    const Term sum = static_cast<Term>(sums[atom][register_of(i, j)]);
                    scores[i].v0[step + atom].element[j] = score_of(args, common, batch, row[i], column, sum);
                }
            }
        }
    }
}

// Computes the weights of a lane's row `pixel`, as words of a factor's fragments. Keys beyond the last one
// have the factor 0.
__device__ __forceinline__ void weigh(
    const Arguments& args, [[maybe_unused]] Parts& parts, int batch, [[maybe_unused]] int pixel,
    int row_of_batch, const Scores& vectors, unsigned (&words)[EVEN_STEPS]) {
    const int first_row = batch * M + row_of_batch;
    [[maybe_unused]] const int member = tile::lane() % TEAM;
    Rows rows;
    [[maybe_unused]] Kept values;
    {
        [[maybe_unused]] const int at = 0, row = first_row;
        
    }
    {
        Lanes<Maximum1> lanes1;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int first = first_column(step);
#pragma unroll
            for (int i = 0; i < SPAN; ++i) {
                if (N % KEYS != 0 && first + i >= N) continue;
                [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
                [[maybe_unused]] const int r0 = row;
                [[maybe_unused]] const int c0 = column;
                const int t0 = vectors.v0[step].element[i];
                lanes1.add(step, i, Maximum1::of(t0, column));
            }
        }
        lanes1.combine_jumps();
        combine_neighbours<Maximum1>(lanes1.value[0], member);
        set_rows<Maximum1>(rows.t1, lanes1.value[0]);
    }
    {
        [[maybe_unused]] const int at = 0, row = first_row;
        
    }
    {
        Lanes<Sum7> lanes7;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int first = first_column(step);
#pragma unroll
            for (int i = 0; i < SPAN; ++i) {
                if (N % KEYS != 0 && first + i >= N) continue;
                [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
                [[maybe_unused]] const int r0 = row;
                [[maybe_unused]] const int c0 = column;
                [[maybe_unused]] const int t1 = rows.t1[at];
                const int t0 = vectors.v0[step].element[i];
                const int t2 = scalar::subtract(t0, t1);
                const int t3 = scalar::add(t2, 255);
                const int t4 = scalar::bit_and(t3, 255);
                const float t5 = tile::load(args.x4 + t4);
                const float t6 = scalar::multiply(t5, t5);
                values.t6[step][i] = t6;
                lanes7.add(step, i, Sum7::of(t6, column));
            }
        }
        lanes7.combine_jumps();
        combine_neighbours<Sum7>(lanes7.value[0], member);
        set_rows<Sum7>(rows.t7, lanes7.value[0]);
    }
    {
        [[maybe_unused]] const int at = 0, row = first_row;
        [[maybe_unused]] const int r0 = row;
        [[maybe_unused]] const float t7 = rows.t7[at];
        const float t8 = scalar::add(t7, 1.0f);
        rows.t8[at] = t8;
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const int first = first_column(step);
        Sum term[SPAN];
#pragma unroll
        for (int i = 0; i < SPAN; ++i) {
            term[i] = 0.0f;
            if (N % KEYS != 0 && first + i >= N) continue;
            [[maybe_unused]] const int at = 0, row = first_row, column = first + i;
            [[maybe_unused]] const int r0 = row;
            [[maybe_unused]] const int c0 = column;
            const float t6 = values.t6[step][i];
            [[maybe_unused]] const float t8 = rows.t8[at];
            const float t9 = scalar::divide(t6, t8);
            const float t10 = scalar::multiply(t9, 900.0f);
            const float t11 = scalar::minimum(t10, 255.0f);
            const int t12 = scalar::nearest(t11);
            const Weight weight = static_cast<Output>(t12);
            term[i] = factor_of(args, batch, row_of_batch, column, weight);
        }
        words[step] = tile::half_pair(term[0], term[1]);
    }
    if constexpr (STEPS < EVEN_STEPS) words[STEPS] = 0u;
}

// Adds the products of a warp's weights and the values of its keys.
__device__ __forceinline__ void multiply(
    Values& values, const unsigned (&words)[LANE_PIXELS][EVEN_STEPS], Sums& sums) {
#pragma unroll
    for (int step = 0; step < STEPS; step += 2) {
        const XFragment weights = {{words[0][step], words[1][step], words[0][step + 1], words[1][step + 1]}};
        const int key = first_key_row() + step * ATOM_N + tile::lane() % 16;
#pragma unroll
        for (int atom = 0; atom < ATOMS; atom += 2) {
            const int part = atom + tile::lane() / 16;
            const int offset = swizzled_offset(key / 8 * 8, key % 8, part % PARTS);
            unsigned loaded[4];
            tile::load_transposed(values.slab[part / PARTS] + offset, loaded);
            const WFragment two[2] = {{{loaded[0], loaded[1]}}, {{loaded[2], loaded[3]}}};
            multiply_add(weights, two[0], sums.of[atom]);
            multiply_add(weights, two[1], sums.of[atom + 1]);
        }
    }
}

// A block computes TILE_M rows of one batch, SHARING warps ATOM_M of them.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    Shared& shared = tile::shared_memory<Shared>();
    const int batch = tile::block_x() / TILES_M, tile_row = tile::block_x() % TILES_M * TILE_M;
    stage(args, shared.queries, batch, [=](int row) { return tile_row + row; });
    stage(args, shared.keys, batch, key_of);
    stage(args, shared.values, batch, key_of);
    tile::barrier();

    int row[LANE_PIXELS];
#pragma unroll
    for (int i = 0; i < LANE_PIXELS; ++i) {
        row[i] = tile_row + tile::warp() / SHARING * ATOM_M + pixel_of_lane(i);
    }
    // Rows beyond the last one are computed like it, and not written.
    const int read[LANE_PIXELS] = {row[0] < M ? row[0] : M - 1, row[1] < M ? row[1] : M - 1};
    Scores scores[LANE_PIXELS];
    score(args, shared, batch, read, scores);
    unsigned words[LANE_PIXELS][EVEN_STEPS];
#pragma unroll
    for (int i = 0; i < LANE_PIXELS; ++i) weigh(args, shared, batch, i, read[i], scores[i], words[i]);
    Sums sums = {};
    multiply(shared.values, words, sums);

    add_warps(shared, sums);

    const Common common = common_of(args);
#pragma unroll
    for (int i = 0; i < LANE_PIXELS; ++i) {
        if (row[i] >= M) continue;
#pragma unroll
        for (int atom = 0; atom < ATOMS; ++atom) {
            if (!is_finished_here(i, atom)) continue;
#pragma unroll
            for (int j = 0; j < LANE_CHANNELS; ++j) {
                const int column = atom * ATOM_N + channel_lane() * LANE_CHANNELS + j;
                if (column >= COLUMNS) continue;
                const Term sum = static_cast<Term>(sums.of[atom][register_of(i, j)]);
                finish(args, common, batch, row[i], column, sum);
            }
        }
    }
}
