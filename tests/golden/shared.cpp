// The CPU device runs each thread of a block as a fiber. Its runtime provides these functions.
extern "C" {
int qconv_cpu_thread(void);
int qconv_cpu_block(int axis);
void* qconv_cpu_shared(void);
void qconv_cpu_barrier(int line);
void qconv_cpu_barrier_of_team(int team, int threads, int line);
const void* qconv_cpu_warp_exchange(const void* value, unsigned long bytes, int line);
bool qconv_cpu_is_shared(const void* address);
[[noreturn]] void qconv_cpu_fail(const char* what, int line);
int qconv_cpu_defers_copies(void);
void qconv_cpu_cluster_arrive(int line);
void qconv_cpu_cluster_wait(int line);
void* qconv_cpu_in_block(const void* address, int block, int line);
void qconv_cpu_mbarrier_open(void* mbarrier, unsigned arrivals, int line);
void qconv_cpu_mbarrier_init(void* mbarrier, int line);
void qconv_cpu_mbarrier_expect(void* mbarrier, unsigned bytes, int line);
void qconv_cpu_mbarrier_wait(void* mbarrier, unsigned phase, int line);
void qconv_cpu_copy_bulk(void* to, const void* from, unsigned bytes, void* mbarrier, int line);
void qconv_cpu_store_async(void* to, const void* value, unsigned bytes, void* mbarrier, int line);
void qconv_cpu_load_tensor(
    void* to, const void* map, const int* coordinates, const unsigned short* offsets, void* mbarrier,
    int line);
void qconv_cpu_store_tensor(const void* map, const int* coordinates, const void* from, int line);
void qconv_cpu_commit_stores(void);
void qconv_cpu_wait_for_stores(unsigned groups);
void qconv_cpu_use_async_proxy(void);
void qconv_cpu_fence_proxy_async(void);
const void* qconv_cpu_async_proxy_view(const void* address);
unsigned qconv_cpu_tensor_allocate(unsigned columns, int line);
void qconv_cpu_tensor_relinquish(int line);
void qconv_cpu_tensor_free(unsigned address, unsigned columns, int line);
void qconv_cpu_tensor_fence(int after);
void qconv_cpu_tensor_multiply(
    unsigned sums, unsigned long long a, unsigned long long b, unsigned kind, int adds, int line);
void qconv_cpu_tensor_commit(void* mbarrier, int line);
void qconv_cpu_tensor_load(unsigned address, int* to, unsigned count, int line);
void qconv_cpu_tensor_wait_for_loads(void);
void qconv_cpu_add(int* address, int value);
void qconv_cpu_publish(void);
void qconv_cpu_wait_on_dependency(void);
}

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __cluster_dims__(...)
#define __grid_constant__
#define __launch_bounds__(...)

__device__ __forceinline__ int thread() { return qconv_cpu_thread(); }
__device__ __forceinline__ int block_x() { return qconv_cpu_block(0); }
__device__ __forceinline__ int block_y() { return qconv_cpu_block(1); }

// Threads that arrive from different lines are reported as a divergent barrier.
__device__ __forceinline__ void barrier(int line = __builtin_LINE()) { qconv_cpu_barrier(line); }

template <class Layout>
__device__ __forceinline__ Layout& shared_memory() { return *static_cast<Layout*>(qconv_cpu_shared()); }

// Each operation rounds once: the code is compiled with -ffp-contract=off.
__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float multiply(float a, float b) { return a * b; }
__device__ __forceinline__ float maximum(float a, float b) { return a > b ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return a < b ? a : b; }

template <bool SIGNED>
__device__ __forceinline__ int byte_of(unsigned word, int index) {
    const unsigned byte = (word >> (8 * index)) & 0xffu;
    return SIGNED ? static_cast<signed char>(byte) : static_cast<int>(byte);
}

@@ 3bf05547 in whole/simt-body-sm_90a.cu: // Adds the dot product of four bytes to an int32. A_SIGNED and B_SIGNED tell whether an operand's bytes are
@@ 5+11
    for (int i = 0; i < 4; ++i) acc += byte_of<A_SIGNED>(a, i) * byte_of<B_SIGNED>(b, i);
    return acc;

// Converts float to half, rounding to even: adding a power of two drops the bits below the last bit of a
// half.
__device__ __forceinline__ unsigned short to_half(float a) {
    unsigned bits;
    __builtin_memcpy(&bits, &a, 4);
    const unsigned sign = (bits >> 16) & 0x8000u;
    const unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned short>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        float value;
        __builtin_memcpy(&value, &magnitude, 4);
        value += 0.5f;
        __builtin_memcpy(&bits, &value, 4);
        return static_cast<unsigned short>(sign | (bits - 0x3f000000u));
    }
    const unsigned even = (magnitude >> 13) & 1u;
    return static_cast<unsigned short>(sign | ((magnitude - 0x38000000u + 0xfffu + even) >> 13));
}

// Picks four of the eight bytes of two words. Bytes of `a` are numbered 0 to 3, those of `b` 4 to 7.
template <int B0, int B1, int B2, int B3>
__device__ __forceinline__ unsigned pick(unsigned a, unsigned b) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    const auto byte = [bytes](int i) { return static_cast<unsigned>(bytes >> (8 * i)) & 0xffu; };
    return byte(B0) | byte(B1) << 8 | byte(B2) << 16 | byte(B3) << 24;
}

// Returns a word of padding. Padding is a real zero, which is stored as the zero point.
__device__ __forceinline__ unsigned padding_word([[maybe_unused]] const Arguments& args) {
    enum : unsigned { ELEMENT = ~0u >> (32 - 8 * sizeof(X)), IN_EACH = ~0u / ELEMENT };
    return (static_cast<unsigned>(args.x_zero) & ELEMENT) * IN_EACH;
}

// An address in shared memory; GPUs use 32 bits for it.
using SharedAddress = char*;
__device__ __forceinline__ SharedAddress shared_address(void* address) { return static_cast<char*>(address); }

// Asynchronous copies from device to shared memory, by one thread. A GPU performs them at any time until they
// are awaited. Here some launches perform them at once, and others only in the wait that requires them.
struct Copies {
    // Copies BYTES bytes, or writes BYTES zeros without reading `from` if `exists` is false.
    template <int BYTES>
    __device__ __forceinline__ void copy(
        void* to, const void* from, bool exists, int line = __builtin_LINE()) {
        static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
        const Copy made = {to, exists ? from : nullptr, BYTES, group_};
        if (reinterpret_cast<unsigned long>(made.to) % BYTES != 0)
            qconv_cpu_fail("an asynchronous copy to an address that its size does not divide", line);
        if (reinterpret_cast<unsigned long>(made.from) % BYTES != 0)
            qconv_cpu_fail("an asynchronous copy from an address that its size does not divide", line);
        if (!deferred_) return perform(made);
        if (queued_ == COPIES_IN_FLIGHT)
            qconv_cpu_fail("more asynchronous copies than COPIES_IN_FLIGHT are not waited for", line);
        queue_[(first_ + queued_++) % COPIES_IN_FLIGHT] = made;
    }

    // Closes a group: the copies since the last commit.
    __device__ __forceinline__ void commit() { ++group_; }

    // Waits until at most the latest GROUPS groups are outstanding.
    template <int GROUPS>
    __device__ __forceinline__ void wait() {
        while (queued_ > 0 && queue_[first_].group < group_ - GROUPS) {
            perform(queue_[first_]);
            first_ = (first_ + 1) % COPIES_IN_FLIGHT;
            --queued_;
        }
    }

private:
    struct Copy {
        void* to;
        const void* from;  // null: zeros
        int bytes, group;
    };

    __device__ __forceinline__ static void perform(const Copy& copy) {
        for (int i = 0; i < copy.bytes; i += 4) {
            auto& word = *reinterpret_cast<Words<1>*>(static_cast<char*>(copy.to) + i);
            word = copy.from != nullptr ? load_words<1>(static_cast<const char*>(copy.from) + i) : Words<1>{};
        }
    }

    const bool deferred_ = qconv_cpu_defers_copies() != 0;
    int group_ = 0, first_ = 0, queued_ = 0;
    Copy queue_[COPIES_IN_FLIGHT];
};

// ldmatrix: loads COUNT matrices of 8 rows x 16 bytes. Lane 8 * i + j supplies the address of row j of matrix
// i. Each lane receives one word of each matrix: word lane % 4 of row lane / 4.
template <int COUNT>
__device__ __forceinline__ void load_matrices(
    const void* row, unsigned (&registers)[COUNT], int line = __builtin_LINE()) {
    static_assert(WARP_SIZE == 32 && (COUNT == 1 || COUNT == 2 || COUNT == 4),
                  "ldmatrix loads 1, 2 or 4 matrices");
    if (lane() < 8 * COUNT && reinterpret_cast<unsigned long>(row) % 16 != 0)
        qconv_cpu_fail("load_matrices of a row that is not 16-byte aligned", line);
    const auto* const deposits = static_cast<const char*>(qconv_cpu_warp_exchange(&row, sizeof row, line));
    for (int i = 0; i < COUNT; ++i) {
        const char* address;
        __builtin_memcpy(&address, deposits + 64 * (8 * i + lane() / 4), sizeof address);
        registers[i] = reinterpret_cast<const Words<1>*>(address + 4 * (lane() % 4))->word[0];
    }
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 10+0
    int* fragments;  // filters, in the order in which a warp's lanes hold them

// mma_m16n8k32 on the CPU device.
// The lanes of a warp exchange their registers, and each computes the elements of D that it holds. Operands
// in other positions than the hardware expects give wrong sums.
static_assert(WARP_SIZE == 32, "WARP_SIZE must be the lanes of the instruction");
static_assert(A_REGISTERS == 4, "A_REGISTERS must be those of the instruction");
static_assert(B_REGISTERS == 2, "B_REGISTERS must be those of the instruction");
static_assert(D_REGISTERS == 4, "D_REGISTERS must be those of the instruction");

namespace emulated {

constexpr int M = 16, N = 8, K = 32;
constexpr int PER_WORD = 4;  // elements of a register

// A lane's number, and an element's number within a lane, are mixed-radix numbers whose first dimension
// varies fastest. Each count in a dimension advances `row` rows and `column` columns of the operand. Lanes
// that differ only in a dimension of 0 rows and 0 columns hold copies of the same elements. B is transposed,
// so that k runs along the rows of both factors.
struct Dim { int size, row, column; };
constexpr Dim A_LANE[] = {{4, 0, 4}, {8, 1, 0}};
constexpr Dim A_BYTE[] = {{4, 0, 1}, {2, 8, 0}, {2, 0, 16}};
constexpr Dim B_LANE[] = {{4, 0, 4}, {8, 1, 0}};
constexpr Dim B_BYTE[] = {{4, 0, 1}, {2, 0, 16}};
constexpr Dim D_LANE[] = {{4, 0, 2}, {8, 1, 0}};
constexpr Dim D_SUM[] = {{2, 0, 1}, {2, 8, 0}};

struct Position { int row, column; };

template <int DIMS>
constexpr Position position_of(int number, const Dim (&dims)[DIMS]) {
    Position position = {0, 0};
    for (const Dim& dim : dims) {
        position.row += number % dim.size * dim.row;
        position.column += number % dim.size * dim.column;
        number /= dim.size;
    }
    return position;
}

template <int COUNT>
struct Positions { Position of[COUNT]; };

template <int COUNT, int DIMS>
constexpr Positions<COUNT> positions(const Dim (&dims)[DIMS]) {
    Positions<COUNT> all = {};
    for (int number = 0; number < COUNT; ++number) all.of[number] = position_of(number, dims);
    return all;
}

constexpr auto LANES_OF_D = positions<WARP_SIZE>(D_LANE);
constexpr auto SUMS_OF_D = positions<D_REGISTERS>(D_SUM);

// The factors that a lane exposes to the others. The runtime places the lanes' copies 64 bytes apart.
struct Factors { unsigned a[A_REGISTERS], b[B_REGISTERS]; };
constexpr int LANE_STRIDE = 64 / 4;

// The inverse map: for each row and each word of elements along k, the index of that word among the exchanged
// words.
template <int ROWS>
struct Holders { unsigned short of[ROWS][K / PER_WORD]; };

template <int ROWS, int REGISTERS, int LANE_DIMS, int BYTE_DIMS>
constexpr Holders<ROWS> holders(
    const Dim (&lane_dims)[LANE_DIMS], const Dim (&byte_dims)[BYTE_DIMS], int first_word) {
    Holders<ROWS> found = {};
    for (int lane = 0; lane < WARP_SIZE; ++lane) {
        for (int index = 0; index < REGISTERS; ++index) {
            const Position of_lane = position_of(lane, lane_dims);
            const Position within = position_of(PER_WORD * index, byte_dims);
            found.of[of_lane.row + within.row][(of_lane.column + within.column) / PER_WORD] =
                static_cast<unsigned short>(lane * LANE_STRIDE + first_word + index);
        }
    }
    return found;
}

static_assert(PER_WORD == 1 || (A_BYTE[0].column == 1 && A_BYTE[0].size % PER_WORD == 0),
              "a register must have neighbours along k");
static_assert(PER_WORD == 1 || (B_BYTE[0].column == 1 && B_BYTE[0].size % PER_WORD == 0),
              "a register must have neighbours along k");
constexpr auto A_HOLDERS = holders<M, A_REGISTERS>(A_LANE, A_BYTE, 0);
constexpr auto B_HOLDERS = holders<N, B_REGISTERS>(B_LANE, B_BYTE, A_REGISTERS);

__device__ __forceinline__ int product(unsigned a, unsigned b, int index) {
    const unsigned a_byte = (a >> (8 * index)) & 0xffu, b_byte = (b >> (8 * index)) & 0xffu;
    return (A_SIGNED ? static_cast<signed char>(a_byte) : static_cast<int>(a_byte)) *
           (B_SIGNED ? static_cast<signed char>(b_byte) : static_cast<int>(b_byte));
}

// Unrolled by hand: compilers keep a loop of four iterations at -O2, and it takes nearly twice as long.
__device__ __forceinline__ unsigned four_products(unsigned a, unsigned b) {
    return static_cast<unsigned>(product(a, b, 0) + product(a, b, 1) + product(a, b, 2) + product(a, b, 3));
}

__device__ __forceinline__ Sum add_products(Sum sum, unsigned a, unsigned b) {
    return static_cast<Sum>(static_cast<unsigned>(sum) + four_products(a, b));
}

// int32 sums keep all of their bits.
__device__ __forceinline__ Sum kept(Sum sum) { return sum; }

// Computes D += A * B by one warp; integers modulo 2**32.
__device__ __forceinline__ void multiply_add(
    const unsigned (&a)[A_REGISTERS], const unsigned (&b)[B_REGISTERS], Sum (&d)[D_REGISTERS],
    int line = __builtin_LINE()) {
    Factors mine;
    __builtin_memcpy(mine.a, a, sizeof a);
    __builtin_memcpy(mine.b, b, sizeof b);
    const auto* const shown = static_cast<const unsigned*>(qconv_cpu_warp_exchange(&mine, sizeof mine, line));
    const Position first = LANES_OF_D.of[tile::lane()];
    for (int i = 0; i < D_REGISTERS; ++i) {
        const auto& a_row = A_HOLDERS.of[first.row + SUMS_OF_D.of[i].row];
        const auto& b_row = B_HOLDERS.of[first.column + SUMS_OF_D.of[i].column];
        for (int k = 0; k < K / PER_WORD; ++k) d[i] = add_products(d[i], shown[a_row[k]], shown[b_row[k]]);
        d[i] = kept(d[i]);
    }
}

}  // namespace emulated

using emulated::multiply_add;

// Loads ones in place of the filter, so that the product is the sum of a window.
__device__ __forceinline__ void load_ones(int step, int atom, unsigned (&ones)[B_REGISTERS]) {
    const int k = channel_of_column(atom, tile::lane() / 4);
#pragma unroll
    for (int half = 0; half < B_REGISTERS; ++half) {
        ones[half] = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (element_of(k, step, half, tile::lane(), i).exists) ones[half] |= 1u << (8 * i);
        }
    }
}

struct Sums {
    Sum product[ATOMS][D_REGISTERS];
    Sum x_sum[ATOMS][D_REGISTERS];  // sum of the inputs in each window
};

@@ 1ed132c6 in shared.cu: // Multiplies one step of 16 pixels by the filters and adds the products to `sums`.
@@ 7+0
        unsigned ones[B_REGISTERS];
        load_ones(step, j, ones);
        multiply_add(x, ones, sums.x_sum[j]);

__device__ __forceinline__ float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// A barrier for the lanes of one warp.
__device__ __forceinline__ void warp_barrier(int line = __builtin_LINE()) {
    constexpr char nothing = 0;
    qconv_cpu_warp_exchange(&nothing, sizeof nothing, line);
}

@@ // The problem.
IN_H=28 IN_W=28 C=80 C_GROUP=80 OUT_H=28 OUT_W=28 K=21 K_GROUP=21 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=784 REDUCTION=720 X_SIGNED=true W_SIGNED=false

__device__ __forceinline__ int warpgroup() { return static_cast<unsigned>(thread()) / 128u; }

template <int COUNT>
__device__ __forceinline__ void give_registers() {}
template <int COUNT>
__device__ __forceinline__ void take_registers() {}

// Does nothing: the CPU device starts the next launch early whether or not this is called.
__device__ __forceinline__ void launch_dependents() {}
__device__ __forceinline__ void wait_on_dependency() { qconv_cpu_wait_on_dependency(); }

// Loads 4, 8 or 16 bytes in one access; the address must be aligned to that size.
template <int WORDS>
__device__ __forceinline__ Words<WORDS> load_words(const void* address, int line = __builtin_LINE()) {
    if (qconv_cpu_is_shared(address))
        qconv_cpu_fail("a load of device memory whose address is in shared memory", line);
    return *static_cast<const Words<WORDS>*>(address);
}

// An mbarrier: counts the bytes that arrive in this block's shared memory, in phases. Some launches deliver
// them at once, and others only when no thread can proceed without them.
struct Mbarrier {
    unsigned long long state;

    // Initialises the mbarrier: one thread, before fence_mbarrier_init. `arrivals` arrivals complete a phase.
    __device__ __forceinline__ void init(int arrivals, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_open(this, static_cast<unsigned>(arrivals), line);
    }
    __device__ __forceinline__ void arrive(int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_expect(this, 0, line);
    }

    // Initialises the mbarrier and announces bytes: one thread, before others wait or send.
    __device__ __forceinline__ void expect(int bytes, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_init(this, line);
        expect_next(bytes, line);
    }
    // Announces the bytes of the next phase: one thread, once the last phase is complete.
    __device__ __forceinline__ void expect_next(int bytes, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_expect(this, static_cast<unsigned>(bytes), line);
    }

    // Fetches bytes, a multiple of 16, from device memory, as the only bytes that the mbarrier expects.
    __device__ __forceinline__ void fetch(
        void* to, const void* from, int bytes, int line = __builtin_LINE()) {
        expect(bytes, line);
        qconv_cpu_copy_bulk(to, from, static_cast<unsigned>(bytes), this, line);
    }
    // Fetches the bytes of the next phase, once nobody reads those of the last.
    __device__ __forceinline__ void fetch_next(
        void* to, const void* from, int bytes, int line = __builtin_LINE()) {
        expect_next(bytes, line);
        qconv_cpu_copy_bulk(to, from, static_cast<unsigned>(bytes), this, line);
    }

    // Waits until all bytes of the first phase have arrived.
    __device__ __forceinline__ void wait(int line = __builtin_LINE()) { wait_for_phase(0, line); }
    // Waits until all arrivals and bytes of a phase are in; phases are numbered from 0.
    __device__ __forceinline__ void wait_for_phase(int phase, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_wait(this, static_cast<unsigned>(phase), line);
    }
    // Waits until the blocks of the cluster have sent all bytes of a phase.
    __device__ __forceinline__ void wait_for_sent(int phase = 0, int line = __builtin_LINE()) {
        wait_for_phase(phase, line);
    }
};

// Does nothing: other threads see an mbarrier as soon as it is initialised.
__device__ __forceinline__ void fence_mbarrier_init() {}

// The CPU device's description of an array. Some launches perform copies at once, and others as late as TMA
// may.
struct alignas(64) TensorMap { unsigned char bytes[128]; };

// Loads the box at these coordinates, innermost first: one thread. The innermost coordinate must be a
// multiple of 16 bytes. `mbarrier` must expect all bytes of the box, including the zeros outside the array.
__device__ __forceinline__ void load_tile_2d(
    const TensorMap& map, void* to, Mbarrier& mbarrier,
    int c0, int c1,
    int line = __builtin_LINE()) {
    const int coordinates[] = {c0, c1};
    const unsigned short* const offsets = nullptr;
    qconv_cpu_load_tensor(to, &map, coordinates, offsets, &mbarrier, line);
}

// Loads the channels from `c` on of a run of pixels, as the tap at offset (tap_w, tap_h) sees them.
__device__ __forceinline__ void load_im2col_4d(
    const TensorMap& map, void* to, Mbarrier& mbarrier,
    int c, int w, int h, int n, int tap_w, int tap_h, int line = __builtin_LINE()) {
    const int coordinates[] = {c, w, h, n};
    const unsigned short offsets[] = {
        static_cast<unsigned short>(tap_w), static_cast<unsigned short>(tap_h)};
    qconv_cpu_load_tensor(to, &map, coordinates, offsets, &mbarrier, line);
}

constexpr bool PIXEL_ROWS = false;  // A is of pixels, B of weights
constexpr bool A_SIGNED = PIXEL_ROWS ? X_SIGNED : W_SIGNED, B_SIGNED = PIXEL_ROWS ? W_SIGNED : X_SIGNED;
__device__ __forceinline__ int product(unsigned a, unsigned b, int index) {
    const unsigned a_byte = (a >> (8 * index)) & 0xffu, b_byte = (b >> (8 * index)) & 0xffu;
    return (A_SIGNED ? static_cast<signed char>(a_byte) : static_cast<int>(a_byte)) *
           (B_SIGNED ? static_cast<signed char>(b_byte) : static_cast<int>(b_byte));
}

// int32 sums keep all of their bits.
__device__ __forceinline__ Sum kept(Sum sum) { return sum; }
extern "C" void qconv_cpu_barrier_of_team(int team, int threads, int line);

using Factor = Operand;
struct Product {
    Factor a;
    Operand b;
    Sum* d;
    bool adds;
    int group;

    // Computes the product; integers modulo 2**32.
    __device__ __forceinline__ void perform() const {
        const int first_row = tile::warp() % 4 * 16 + tile::lane() / 4;
        for (int h = 0; h < 2; ++h) {
            unsigned row[8];
            for (int word = 0; word < 8; ++word) row[word] = a.word(first_row + 8 * h, word);
            for (int i = 0; i < ATOMS * 2; ++i) {
                Sum& sum = d[i / 2 * 4 + 2 * h + i % 2];
                if (!adds) sum = 0;
                const int column = i / 2 * 8 + tile::lane() % 4 * 2 + i % 2;
                for (int word = 0; word < 8; ++word) sum = add_products(sum, row[word], b.word(column, word));
                sum = kept(sum);
            }
        }
    }
};

__device__ __forceinline__ void begin_products() {}

// Computes D = A * B, or D += A * B if `adds`.
__device__ __forceinline__ void multiply(
    Products& products, const Factor& a, const Operand& b, Sum (&d)[ATOMS][4], bool adds,
    int line = __builtin_LINE()) {
    constexpr int MOST = Products::MOST;
    if (products.queued == MOST) qconv_cpu_fail("more products of a warpgroup than MOST are under way", line);
    products.queue[(products.first + products.queued++) % MOST] = {a, b, &d[0][0], adds, products.group};
}
__device__ __forceinline__ void commit_products(Products& products) { ++products.group; }

// Waits until all but the latest GROUPS groups, of all four warps, have read their factors and completed
// their sums.
template <int GROUPS>
__device__ __forceinline__ void wait_for_products(Products& products, int line = __builtin_LINE()) {
    while (products.queued > 0 && products.queue[products.first].group < products.group - GROUPS) {
        products.queue[products.first].perform();
        products.first = (products.first + 1) % Products::MOST;
        --products.queued;
    }
    qconv_cpu_barrier_of_team(tile::warpgroup(), 128, line);
}
__device__ __forceinline__ void await(Sum (&)[ATOMS][4]) {}

@@ 88e5e5e1 in pages/wgmma-odd-cpu.sm_90a.cpp: // A consumer's outstanding products. They read their factors and write their sums as late as the hardware
@@ 4+1
    static constexpr int MOST = PRODUCTS;  // products per tile

// Makes this thread's writes to shared memory visible to bulk copies and to wgmma.
__device__ __forceinline__ void fence_proxy_async() { qconv_cpu_fence_proxy_async(); }

template <class Layout>
__device__ __forceinline__ Layout& shared_memory() {
    qconv_cpu_use_async_proxy();
    return *static_cast<Layout*>(qconv_cpu_shared());
}

__device__ __forceinline__ float as_float(unsigned bits) {
    float a;
    __builtin_memcpy(&a, &bits, 4);
    return a;
}

// Converts bfloat16 to float: a bfloat16 is the upper half of a float.
__device__ __forceinline__ float bfloat16_to_float(unsigned short a) {
    return as_float(static_cast<unsigned>(a) << 16);
}

// The elements of a 32-bit word as floats: two bfloat16, each the upper half of a float.
struct Bfloats {
    static constexpr int COUNT = 2;
    static __device__ __forceinline__ float of(unsigned word, int i) {
        return as_float(i == 0 ? word << 16 : word & 0xffff0000u);
    }
};

constexpr int M = 16, N = 8, K = 16;
constexpr int PER_WORD = 2;  // elements of a register

@@ 495d77d0 in shared.cpp: // A lane's number, and an element's number within a lane, are mixed-radix numbers whose first dimension
@@ 6+4
constexpr Dim A_LANE[] = {{4, 0, 2}, {8, 1, 0}};
constexpr Dim A_BYTE[] = {{2, 0, 1}, {2, 8, 0}, {2, 0, 8}};
constexpr Dim B_LANE[] = {{4, 0, 2}, {8, 1, 0}};
constexpr Dim B_BYTE[] = {{2, 0, 1}, {2, 0, 8}};

// Returns what the instruction keeps of a sum: the lowest LOST_BITS bits of its fraction are cut off.
constexpr unsigned LOST_BITS = 0;
__device__ __forceinline__ Sum kept(Sum sum) {
    unsigned bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    bits = bits >> LOST_BITS << LOST_BITS;
    __builtin_memcpy(&sum, &bits, sizeof bits);
    return sum;
}

__device__ __forceinline__ unsigned as_bits(float a) {
    unsigned bits;
    __builtin_memcpy(&bits, &a, 4);
    return bits;
}

// Converts half to float: the exponent's bias grows from 15 to 127, and a denormal half is its mantissa times
// 2^-24.
__device__ __forceinline__ float half_to_float(unsigned short half) {
    const unsigned sign = (half & 0x8000u) << 16;
    const unsigned magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return as_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    if (magnitude >= 0x400u) return as_float(sign | ((magnitude << 13) + 0x38000000u));
    return as_float(sign | as_bits(static_cast<float>(magnitude) * 5.9604644775390625e-08f));
}

// Returns the value of the lane whose number differs from this lane's in the bits of `mask`.
__device__ __forceinline__ int shuffle_xor(int value, int mask, int line = __builtin_LINE()) {
    const void* const deposits = qconv_cpu_warp_exchange(&value, sizeof value, line);
    int other;
    __builtin_memcpy(&other, static_cast<const char*>(deposits) + 64 * (lane() ^ mask), sizeof other);
    return other;
}

// The scalar functions of expressions. Each operation rounds once; integers wrap around.

// These saturate, and give zero for NaN.
__device__ __forceinline__ int truncated(float a) {
    const int inside = static_cast<int>(a > -0x1p31f && a < 0x1p31f ? a : 0.0f);
    return a >= 0x1p31f ? 0x7fffffff : a <= -0x1p31f ? static_cast<int>(0x80000000u) : inside;
}
__device__ __forceinline__ int nearest(float a) { return truncated(__builtin_rintf(a)); }  // half to even
