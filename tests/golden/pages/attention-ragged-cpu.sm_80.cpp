// matmul:batch=1:m=19:n=21:k=20:in=int8*380,int8*420,int8*1!:out=uint8:
//     do=t0=x0[m0*20+k0];t1=x2[0];t2=subtract(t0,t1);t3=to_float32(t2);t4=x1[n0*20+k0];t5=subtract(t4,100);t6=to_float32(t5);t7=multiply(t3,t6);t8=sum_of(t7);t9=to_float32(t8);t10=multiply(t9,0.00039999998989515007);t11=round(t10);t12=add(t11,120.0);t13=maximum(t12,0.0);t14=minimum(t13,255.0);t15=to_int32(t14)+reduce:
//     rows=19:columns=21:in=uint8*399:out=uint8:
//     do=t0=x0[r0*21+c0];t1=maximum_of(t0);t2=subtract(t0,t1);t3=to_float32(t2);t4=multiply(t3,0.03999999910593033);t5=exp(t4);t6=sum_of(t5);t7=divide(t5,t6);t8=multiply(t7,1500.0);t9=minimum(t8,255.0);t10=nearest(t9)+matmul:
//     batch=1:m=19:n=7:k=21:in=uint8*399,int8*147,int8*1!:out=int32:
//     do=t0=x0[m0*21+k0];t1=subtract(t0,3);t2=to_float32(t1);t3=x1[n0*21+k0];t4=x2[0];t5=subtract(t3,t4);t6=to_float32(t5);t7=multiply(t2,t6);t8=sum_of(t7);t9=to_int32(t8)
//
//   t0 = x0[m0 * 20 + k0]
//   t1 = x2[0]
//   t2 = subtract(t0, t1)
//   t3 = to_float32(t2)
//   t4 = x1[n0 * 20 + k0]
//   t5 = subtract(t4, 100)
//   t6 = to_float32(t5)
//   t7 = multiply(t3, t6)
//   t8 = sum_of(t7)
//   t9 = to_float32(t8)
//   t10 = multiply(t9, 0.00039999998989515007)
//   t11 = round(t10)
//   t12 = add(t11, 120.0)
//   t13 = maximum(t12, 0.0)
//   t14 = minimum(t13, 255.0)
//   t15 = to_int32(t14)
//   score = t15
//   t0 = x5[r0 * 21 + c0]
//   t1 = maximum_of(t0)
//   t2 = subtract(t0, t1)
//   t3 = to_float32(t2)
//   t4 = multiply(t3, 0.03999999910593033)
//   t5 = exp(t4)
//   t6 = sum_of(t5)
//   t7 = divide(t5, t6)
//   t8 = multiply(t7, 1500.0)
//   t9 = minimum(t8, 255.0)
//   t10 = nearest(t9)
//   weight = t10
//   t0 = x6[m0 * 21 + k0]
//   t1 = subtract(t0, 3)
//   t2 = to_float32(t1)
//   t3 = x3[n0 * 21 + k0]
//   t4 = x4[0]
//   t5 = subtract(t3, t4)
//   t6 = to_float32(t5)
//   t7 = multiply(t2, t6)
//   t8 = sum_of(t7)
//   t9 = to_int32(t8)
//   y = t9
//
// target    cpu.sm_80
// config    attention warps=2 sharing=1 slab=32 resident=1
// launch    attention<<<1x1x1, 64, 6144 B>>> when: call

@@ // The problem.
constexpr int M = 19;  // rows of a batch
constexpr int N = 21;  // keys of a batch
constexpr int DEPTH = 20;  // products per score
constexpr int COLUMNS = 7;  // of the values

@@ 57fd8eaa in pages/attention-heads-beside-each-other-sm_90a.cu: // Derived values.
@@ 15+5
constexpr int TILES_M = 1;  // blocks per batch
constexpr int KEYS = 32;  // N, rounded up to whole steps of the second product and of all warps
constexpr int KEY_ROWS = 32;  // rows of keys in shared memory
constexpr int STEPS = 4;  // columns of the first product's instructions, per warp
constexpr int JUMPS = 4;  // vectors between two of the same lanes, of a thread
@@ 26+1
constexpr int SMEM_BYTES = 6144;

__device__ __forceinline__ float magnitude(float a) { return __builtin_fabsf(a); }

@@ 37a0922a in shared.cu: // NaN if an argument is; of two zeros, the positive one is larger.
@@ 3+7
    if (a != a || b != b) return a + b;
    return a > b || (a == b && __builtin_signbit(b)) ? a : b;

// The zero point of bytes that become fp16.
template <class Byte>
__device__ __forceinline__ unsigned subtrahend_of_bytes(int zero_point) {
    return static_cast<unsigned>(zero_point);
}

// Returns bytes FIRST and FIRST + 1 of a word without their zero point, in fp16.
template <class Byte, int FIRST>
__device__ __forceinline__ unsigned halves_of_bytes(unsigned word, unsigned subtrahend) {
    const int low = static_cast<Byte>(word >> 8 * FIRST), high = static_cast<Byte>(word >> 8 * (FIRST + 1));
    const int zero_point = static_cast<int>(subtrahend);
    return half_pair(static_cast<float>(low - zero_point), static_cast<float>(high - zero_point));
}

// ldmatrix, transposed: reads back what store_matrices stored of four matrices, to the same lanes.
__device__ __forceinline__ void load_transposed(
    const void* row, unsigned (&words)[4], int line = __builtin_LINE()) {
    if (reinterpret_cast<unsigned long>(row) % 16 != 0)
        qconv_cpu_fail("load_transposed of a row that is not 16-byte aligned", line);
    const auto* const deposits = static_cast<const char*>(qconv_cpu_warp_exchange(&row, sizeof row, line));
    for (int pair = 0; pair < 8; ++pair) {
        const char* named;
        __builtin_memcpy(&named, deposits + 64 * (8 * (pair / 2) + lane() % 4 * 2 + pair % 2), sizeof named);
        __builtin_memcpy(reinterpret_cast<char*>(words) + 2 * pair, named + lane() / 4 * 2, 2);
    }
}

using X0 = signed char;
using X1 = signed char;
using X2 = signed char;
using X3 = signed char;
using X4 = signed char;
using Output = int;
using Score = unsigned char;
using Weight = unsigned char;

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // int8*380
    const X1* x1;  // int8*420
    const X2* x2;  // int8*1!
    const X3* x3;  // int8*147
    const X4* x4;  // int8*1!
    Output* y;  // output
};

// mma_m16n8k16_f16 on the CPU device.
// The lanes of a warp exchange their registers, and each computes the elements of D that it holds. Operands
// in other positions than the hardware expects give wrong sums.
static_assert(WARP_SIZE == 32, "WARP_SIZE must be the lanes of the instruction");
static_assert(A_REGISTERS == 4, "A_REGISTERS must be those of the instruction");
static_assert(B_REGISTERS == 2, "B_REGISTERS must be those of the instruction");
static_assert(D_REGISTERS == 4, "D_REGISTERS must be those of the instruction");

@@ 9ad93109 in pages/direct-parts-bfloat16-cpu.sm_80.cpp: // The hardware states no order of additions: a kernel's sums must be exact in any.
@@ 3+2
    using A = tile::Halves;
    using B = tile::Halves;

@@ e7a6b182 in pages/attention-heads-beside-each-other-sm_90a.cu: // A factor in shared memory: ROWS rows, of which the first EXTENT exist, of WIDTH terms each, in slabs.
@@ 5+1
    static constexpr int VECTOR = 4, SLABS = (WIDTH * 2 + TILE_K - 1) / TILE_K;

@@ ad7c71d8 in pages/attention-heads-beside-each-other-sm_90a.cu:     // Returns eight bytes of a row without their zero point, in fp16; those behind the last one are 0.
@@ 11+2
@@ 15+1
            const tile::Words<1> v0 = tile::load_words<1>(args.x0 + (m0 * 20 + first_k0));
@@ 29+1
    static constexpr int VECTOR = 4, SLABS = (WIDTH * 2 + TILE_K - 1) / TILE_K;

@@ ad7c71d8 in pages/attention-heads-beside-each-other-sm_90a.cu:     // Returns eight bytes of a row without their zero point, in fp16; those behind the last one are 0.
@@ 4+2
        
        const unsigned zeros = tile::subtrahend_of_bytes<X1>(100);
@@ 11+3
            [[maybe_unused]] const int n0 = at;
@@ 15+1
            const tile::Words<1> v0 = tile::load_words<1>(args.x1 + (n0 * 20 + first_k0));
@@ 19+2
                words.word[pair] = tile::halves_of_bytes<X1, 0>(v0.word[word], zeros);
                words.word[pair + 1] = tile::halves_of_bytes<X1, 2>(v0.word[word], zeros);
@@ 26+5
// Rows that the weights multiply.
struct Values {
    static constexpr int ROWS = KEY_ROWS, EXTENT = N, WIDTH = COLUMNS;
    static constexpr int VECTOR = 1, SLABS = (WIDTH * 2 + TILE_K - 1) / TILE_K;
    static constexpr int UNDER_WAY = 4;  // chunks of a thread

    static __device__ __forceinline__ void terms(
        [[maybe_unused]] const Arguments& args, [[maybe_unused]] int batch, [[maybe_unused]] int at,
        [[maybe_unused]] int first, Sum (&term)[VECTOR]) {
        [[maybe_unused]] const int k0 = at;
        [[maybe_unused]] const int first_n0 = first;
#pragma unroll
        for (int lane = 0; lane < VECTOR; ++lane) {
            [[maybe_unused]] const int n0 = first_n0 + lane;
            const int t0 = tile::load(args.x3 + (n0 * 21 + k0));
            const int t1 = tile::load(args.x4);
            const int t2 = scalar::subtract(t0, t1);
            const float t3 = scalar::to_float32(t2);
            term[lane] = static_cast<Sum>(t3);
        }
    }
};
// The warps that share rows take steps of the keys in turn, and the keys of a warp are neighbours in shared
// memory. Maps a row there to its key.
__device__ __forceinline__ int key_of(int row) {
    return SHARING == 1 ? row : (row / 8 % STEPS * SHARING + row / 8 / STEPS) * 8 + row % 8;
}

// t6 = sum_of(t5)
struct Sum6 {
    using Value = float;
    static __device__ __forceinline__ Value begin() { return 0.0f; }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return scalar::add(a, b); }
    static __device__ __forceinline__ Value of(float element, [[maybe_unused]] int column) {
        return element;
    }
    static __device__ __forceinline__ float result(Value a) { return a; }
};

@@ c42b6478 in pages/reduce-positions-cpu.cpp: // The values of a thread's rows.
@@ 4+0
    float t6[ROWS_OF_THREAD];

// The values that a lane keeps of its scores between passes.
struct Kept {
    float t5[STEPS][VECTOR];
};

@@ 2f4e0f53 in pages/attention-heads-beside-each-other-sm_90a.cu: // Values that all scores have in common.
@@ 12+2
@@ 19+8
    const float t11 = scalar::round(t10);
    const float t12 = scalar::add(t11, 120.0f);
    const float t13 = scalar::maximum(t12, 0.0f);
    const float t14 = scalar::minimum(t13, 255.0f);
    const int t15 = scalar::to_int32(t14);
    return static_cast<Output>(t15);

@@ c1a7f1c2 in pages/attention-heads-beside-each-other-sm_90a.cu: // Returns a weight as a factor of the values.
@@ 5+2

@@ ef81ad41 in pages/matmul_mma-bytes-sm_90a.cu: // Computes an element of the output from its sum.
@@ 7+11
    const Term t8 = sum;
    const int t9 = scalar::to_int32(t8);
    args.y[m0 * 7 + n0] = static_cast<Output>(t9);

@@ 47da6ba2 in pages/attention-heads-beside-each-other-sm_90a.cu: // Computes the weights of a lane's row `pixel`, as words of a factor's fragments. Keys beyond the last one
@@ 38+1
        Lanes<Sum6> lanes6;
@@ 51+6
                const float t3 = scalar::to_float32(t2);
                const float t4 = scalar::multiply(t3, 0.03999999910593033f);
                const float t5 = scalar::exp(t4);
                values.t5[step][i] = t5;
                lanes6.add(step, i, Sum6::of(t5, column));
@@ 59+3
        lanes6.combine_jumps();
        combine_neighbours<Sum6>(lanes6.value[0], member);
        set_rows<Sum6>(rows.t6, lanes6.value[0]);
@@ 65+4
        
@@ 81+7
            const float t5 = values.t5[step][i];
            [[maybe_unused]] const float t6 = rows.t6[at];
            const float t7 = scalar::divide(t5, t6);
            const float t8 = scalar::multiply(t7, 1500.0f);
            const float t9 = scalar::minimum(t8, 255.0f);
            const int t10 = scalar::nearest(t9);
            const Weight weight = static_cast<Output>(t10);

@@ d743d374 in pages/attention-heads-beside-each-other-sm_90a.cu: // A block computes TILE_M rows of one batch, SHARING warps ATOM_M of them.
@@ 3+2

// Entry points: the CPU device calls one per thread.
extern "C" void attention_entry(const void* args) {
    attention(*static_cast<const Arguments*>(args));
}
