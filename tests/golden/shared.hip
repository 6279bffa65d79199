@@ d4e5a044 in whole/simt-body-sm_90a.cu: // Loads 4, 8 or 16 bytes in one access; the address must be aligned to that size.
@@ 4+11
    return *static_cast<const Words<WORDS>*>(address);

// Adds the dot product of four bytes to an int32. A_SIGNED and B_SIGNED tell whether an operand's bytes are
// signed. The hardware has no instruction for mixed signs: a signed byte equals its unsigned pattern minus
// 256 where the sign bit is set, so two unsigned dot products give the result.
template <bool A_SIGNED, bool B_SIGNED>
__device__ __forceinline__ int dot(unsigned a, unsigned b, int acc) {
    if constexpr (A_SIGNED && B_SIGNED) {
        return __builtin_amdgcn_sdot4(static_cast<int>(a), static_cast<int>(b), acc, false);
    } else if constexpr (!A_SIGNED && !B_SIGNED) {
        return static_cast<int>(__builtin_amdgcn_udot4(a, b, static_cast<unsigned>(acc), false));
    } else {
        const unsigned signs = ((A_SIGNED ? a : b) >> 7) & 0x01010101u;
        const unsigned surplus = __builtin_amdgcn_udot4(A_SIGNED ? b : a, signs, 0u, false) << 8;
        return static_cast<int>(__builtin_amdgcn_udot4(a, b, static_cast<unsigned>(acc), false) - surplus);
    }
}

__device__ __forceinline__ float rounded(float a) { return __builtin_rintf(a); }

__device__ __forceinline__ float rounded(float a, float more) { return __builtin_rintf(a) + more; }

@@ 3bf05547 in whole/simt-body-sm_90a.cu: // Adds the dot product of four bytes to an int32. A_SIGNED and B_SIGNED tell whether an operand's bytes are
@@ 5+11
    return __builtin_amdgcn_sudot4(A_SIGNED, static_cast<int>(a), B_SIGNED, static_cast<int>(b), acc, false);

__device__ __forceinline__ unsigned short to_half(float a) {
    return __builtin_bit_cast(unsigned short, static_cast<_Float16>(a));
}

@@ d0e1dba1 in whole/depthwise-rows-sm_90a.cu: // Picks four of the eight bytes of two words. Bytes of `a` are numbered 0 to 3, those of `b` 4 to 7.
@@ 4+1
    return __builtin_amdgcn_perm(b, a, B0 | B1 << 8 | B2 << 16 | B3 << 24);

using X = signed char;
using W = signed char;
using Sum = int;
using Output = unsigned char;

@@ // The problem.
IN_H=56 IN_W=56 C=24 C_GROUP=24 OUT_H=56 OUT_W=56 K=144 K_GROUP=144 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=100352 REDUCTION=24 X_SIGNED=true W_SIGNED=true

@@ // The config.
ATOMS=4 BATCH=2

// Writes neighbouring output elements, or padding in their place. To select a word of padding costs less than
// four elements.
template <int COUNT>
__device__ __forceinline__ void write_or_pad(
    unsigned char* byte, Finished (&finished)[COUNT], bool is_padding, unsigned padding) {
    Output* const to = reinterpret_cast<Output*>(byte);
    if constexpr (COUNT % 4 == 0) {
        tile::Words<COUNT / 4> words;
#pragma unroll
        for (int i = 0; i < COUNT / 4; ++i) {
            const Finished* const four = &finished[4 * i];
            const unsigned last_two = tile::pack<Packed>(four[2], four[3], 0);
            words.word[i] = is_padding ? padding : tile::pack<Packed>(four[0], four[1], last_two);
        }
        *reinterpret_cast<tile::Words<COUNT / 4>*>(to) = words;
        return;
    }
    if (is_padding) {
#pragma unroll
        for (Finished& each : finished) each = static_cast<Finished>(static_cast<Output>(padding & 0xffu));
    }
    write(to, finished);
}

// Loads WIDTH bytes of the image, or padding, through registers.
__device__ __forceinline__ void load_vector(
    Team&, const Arguments& args, unsigned char* to, const X* from, int, bool is_inside) {
    tile::Words<WIDTH / 4> words;
#pragma unroll
    for (unsigned& word : words.word) word = padding_word(args);
    if (is_inside) words = tile::load_words<WIDTH / 4>(from);
    *reinterpret_cast<tile::Words<WIDTH / 4>*>(to) = words;
}

using Address = const unsigned char*;
__device__ __forceinline__ Address address_of(const unsigned char* byte) { return byte; }

// Loads 16 bytes of the lane's pixel.
__device__ __forceinline__ XFragment load_pixels(Address address) {
    XFragment fragment;
    const auto words = tile::load_shared<4>(reinterpret_cast<const unsigned*>(address));
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment.word[i] = words.word[i];
    return fragment;
}

// Layout of a lane's weights: 16 bytes of one row of the atom.
constexpr int W_WORDS = 4;
__device__ __forceinline__ int row_of_lane(int lane) { return lane % ATOM_ROWS; }
__device__ __forceinline__ int chunk_of_word(int lane, int) { return lane / ATOM_ROWS % STEP_CHUNKS; }
__device__ __forceinline__ int byte_of_word(int, int word) { return word * 4; }

@@ 5d9225cc in whole/depthwise-rows-sm_90a.cu: __device__ __forceinline__ Filters load_filters(const Arguments& args, int k) {
@@ 10+1
                // An ordinary load: the compiler leaves it before the barrier.
                const auto words = *reinterpret_cast<const tile::Words<4>*>(args.taps + index);

// The input pixels of a thread's patch, in shared memory. Each is read once for all its outputs.
struct InputPatch {
    int first_row, first_column;
    const unsigned char* corner;

    __device__ __forceinline__ InputPatch(const Source& source, int row, int column, int k)
        : first_row(row * STRIDE_H), first_column(column * STRIDE_W),
          corner(&source.byte[k / 16][first_row * Layout::ROW + first_column][k % 16]) {}

@@ b6da6d0b in whole/fused-small-image-sm_90a.cu:     template <bool INSIDE>
@@ 4+1
        const bool is_inside = GRID_ROWS % ROWS == 0 || first_row + down < SOURCE_ROWS;
@@ 8+3
            for (unsigned& quad : result.pixel[i].quad) quad = 0u;  // outputs past the tile are not written
            if (!is_inside || (GRID_COLUMNS % COLUMNS != 0 && first_column + i >= SOURCE_COLUMNS)) continue;
            const auto words = tile::load_shared<QUADS>(
                reinterpret_cast<const unsigned*>(corner + (down * Layout::ROW + i) * 16));

// The filters and channel parameters of a thread's channels.
struct OwnChannels {
    int k;
    Filters filters;
    Channel channels[VECTOR];

    OwnChannels() = default;
    __device__ __forceinline__ OwnChannels(const Arguments& args, int k)
        : k(k), filters(load_filters(args, existing(k))) {
        load_channels(args, existing(k), channels);
    }

    // A thread without channels loads those of others.
    static __device__ __forceinline__ int existing(int k) { return k < K ? k : 0; }
};

// The block's filters: each thread loads those of its first channels before it waits for their pixels.
struct BlockWeights {
    OwnChannels own;

    template <class Shared>
    __device__ __forceinline__ BlockWeights(const Arguments&, Shared&) {}

    __device__ __forceinline__ void load(Team&, const Arguments&) const {}
    __device__ __forceinline__ void await() const {}
    __device__ __forceinline__ void load_ahead(const Team& team, const Arguments& args) {
        own = OwnChannels(args, own_k(team));
    }
};

// Computes the outputs of a tile's pixels. A thread keeps its channels while it goes from patch to patch.
__device__ __forceinline__ void run(
    const Team& team, const Arguments& args, BlockWeights& weights, const Source& source, const Sink& sink) {
    OwnChannels& own = weights.own;
    if (THREADS % ACROSS != 0 && team.thread() >= AT_ONCE * ACROSS) return;
    if (own.k >= end_k(team)) return;
#pragma unroll 1
    for (;;) {
        const int source_k = BY_SLICES ? own.k - begin_k(team) : own.k;
#pragma unroll 1
        for (int patch = team.thread() / ACROSS; patch < ALL_PATCHES; patch += AT_ONCE) {
            const int row = patch / PATCHES_W * ROWS, column = patch % PATCHES_W * COLUMNS;
            const InputPatch from(source, row, column, source_k);
            run_patch<true>(from, OutputPatch(sink, row, column, own.k), own.filters, own.channels);
        }
        const int next = own.k + ACROSS * VECTOR;
        if (next >= end_k(team)) break;
        own = OwnChannels(args, next);
    }
}

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 4+3

__device__ __forceinline__ unsigned as_bits(float a) { return __builtin_bit_cast(unsigned, a); }
__device__ __forceinline__ float as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }

__device__ __forceinline__ float half_to_float(unsigned short half) {
    return static_cast<float>(__builtin_bit_cast(_Float16, half));
}

@@ 2df553df in shared.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+1
@@ 8+1

@@ 663f93b1 in shared.cu: __device__ __forceinline__ Channel load_channel(
@@ 6+1
@@ 8+1

__device__ __forceinline__ unsigned half_pair(float low, float high) {
    return to_half(low) | static_cast<unsigned>(to_half(high)) << 16;
}

// mfma_f32_16x16x16bf16_1k: A is 16 channels, B is 16 pixels,
// each by 16 bytes of the reduction.
[[maybe_unused]] constexpr bool A_SIGNED = true, B_SIGNED = true;
static_assert(X_SIGNED && W_SIGNED, "X and W must be signed");
constexpr int A_REGISTERS = 2, B_REGISTERS = A_REGISTERS;
constexpr int D_REGISTERS = 4;
constexpr int ATOM_ROWS = 16;

@@ 3ece6258 in whole/mma-16x16x32-staged-gfx942.hip: // Computes D += A * B, by one wavefront.
@@ 5+2
    typedef short Operand
        __attribute__((ext_vector_type(4 * A_REGISTERS / sizeof(short))));
    const Registers sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(

__device__ __forceinline__ float divide(float a, float b) { return a / b; }

@@ // The config.
THREADS=128 VECTOR=8 UNROLL=1

__device__ __forceinline__ float sqrt(float a) { return __builtin_sqrtf(a); }
__device__ __forceinline__ float floor(float a) { return __builtin_floorf(a); }
__device__ __forceinline__ float ceil(float a) { return __builtin_ceilf(a); }
__device__ __forceinline__ float round(float a) { return __builtin_rintf(a); }  // half to even

__device__ __forceinline__ float multiply(float a, float b) { return tile::multiply(a, b); }
__device__ __forceinline__ int multiply(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
}
__device__ __forceinline__ long long multiply(long long a, long long b) {
    return static_cast<long long>(static_cast<unsigned long long>(a) * static_cast<unsigned long long>(b));
}

__device__ __forceinline__ float floor(float a) { return tile::floor(a); }
__device__ __forceinline__ float ceil(float a) { return tile::ceil(a); }
__device__ __forceinline__ float round(float a) { return tile::round(a); }
__device__ __forceinline__ float trunc(float a) { return a < 0.0f ? tile::ceil(a) : tile::floor(a); }
__device__ __forceinline__ float sqrt(float a) { return tile::sqrt(a); }

__device__ __forceinline__ bool logical_not(bool a) { return !a; }
template <class T>
__device__ __forceinline__ T bit_and(T a, T b) { return a & b; }
template <class T>
__device__ __forceinline__ T bit_or(T a, T b) { return a | b; }
template <class T>
__device__ __forceinline__ T bit_xor(T a, T b) { return a ^ b; }
template <class T>
__device__ __forceinline__ T bit_not(T a) { return ~a; }
