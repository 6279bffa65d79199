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
constexpr int ATOMS = 4;  // atoms of channels per warp
constexpr int BATCH = 2;  // atoms of pixels per warp, at a time

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

__device__ __forceinline__ unsigned as_bits(float a) { return __builtin_bit_cast(unsigned, a); }
__device__ __forceinline__ float as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }

__device__ __forceinline__ float half_to_float(unsigned short half) {
    return static_cast<float>(__builtin_bit_cast(_Float16, half));
}

// The elements of a 32-bit word as floats: four of OCP's e4m3. Their bits are those of a half but for the
// exponent's bias, 7 instead of 15; beyond the largest number there is only NaN.
struct E4m3s {
    static constexpr int COUNT = 4;
    static __device__ __forceinline__ float of(unsigned word, int i) {
        const unsigned sign = word >> (8 * i) & 0x80u, magnitude = word >> (8 * i) & 0x7fu;
        const float scaled = half_to_float(static_cast<unsigned short>(sign << 8 | magnitude << 7));
        return magnitude == 0x7fu ? as_float(0x7fffffffu) : scaled * 256.0f;
    }
};

// Converts float to an 8-bit float: half to even, beyond the largest number to that number, as OCP's
// saturating conversion does; a NaN is the type's NaN. Below the smallest normal number, adding a power of
// two drops the bits below the last one.
template <int MANTISSA, unsigned LARGEST, unsigned BIAS>
__device__ __forceinline__ unsigned char to_float8(float a) {
    constexpr int DROPPED = 23 - MANTISSA;
    constexpr unsigned SMALLEST_NORMAL = (128u - BIAS) << 23, ONE_STEP = (151u - BIAS - MANTISSA) << 23;
    const unsigned sign = as_bits(a) >> 24 & 0x80u, magnitude = as_bits(a) & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fu;
    if (magnitude < SMALLEST_NORMAL) {
        const unsigned steps = as_bits(as_float(magnitude) + as_float(ONE_STEP)) - ONE_STEP;
        return static_cast<unsigned char>(sign | steps);
    }
    const unsigned even = magnitude >> DROPPED & 1u;
    const unsigned rounded = (magnitude + (1u << (DROPPED - 1)) - 1u + even) >> DROPPED;
    const unsigned rebased = rounded - ((127u - BIAS) << MANTISSA);
    return static_cast<unsigned char>(sign | (rebased < LARGEST ? rebased : LARGEST));
}

// Rounds floats half to even to an 8-bit float, saturating, four to a word.
template <int MANTISSA, unsigned LARGEST, unsigned BIAS>
struct PackedFloats8 {
    static constexpr int COUNT = 4;
    static __device__ __forceinline__ unsigned char one(float a) {
        return static_cast<unsigned char>(pair(a, a));
    }
    static __device__ __forceinline__ unsigned word(const float* four) {
        return pair(four[0], four[1]) | pair(four[2], four[3]) << 16;
    }
    static __device__ __forceinline__ unsigned pair(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        unsigned short two;
        if constexpr (MANTISSA == 3) {
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
        } else {
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
        }
        return two;
#else
        const unsigned upper = to_float8<MANTISSA, LARGEST, BIAS>(high);
        return to_float8<MANTISSA, LARGEST, BIAS>(low) | upper << 8;
#endif
    }
};
using PackedE4m3s = PackedFloats8<3, 0x7eu, 7>;
using PackedE5m2s = PackedFloats8<2, 0x7bu, 15>;

// The type that `narrow` converts to an output element.
using Finished = float;
using Narrow = tile::PackedE4m3s;

__device__ __forceinline__ unsigned half_pair(float low, float high) {
    return to_half(low) | static_cast<unsigned>(to_half(high)) << 16;
}

// The elements of a 32-bit word as floats: four of OCP's e5m2, each the upper half of a half.
struct E5m2s {
    static constexpr int COUNT = 4;
    static __device__ __forceinline__ float of(unsigned word, int i) {
        return half_to_float(static_cast<unsigned short>((word >> (8 * i) & 0xffu) << 8));
    }
};

__device__ __forceinline__ float divide(float a, float b) { return a / b; }

@@ // The config.
THREADS=128 VECTOR=8 UNROLL=1

using X = signed char;

__device__ __forceinline__ float sqrt(float a) { return __builtin_sqrtf(a); }
__device__ __forceinline__ float floor(float a) { return __builtin_floorf(a); }
__device__ __forceinline__ float ceil(float a) { return __builtin_ceilf(a); }
__device__ __forceinline__ float round(float a) { return __builtin_rintf(a); }  // half to even

__device__ __forceinline__ float floor(float a) { return tile::floor(a); }
__device__ __forceinline__ float ceil(float a) { return tile::ceil(a); }
__device__ __forceinline__ float round(float a) { return tile::round(a); }
__device__ __forceinline__ float trunc(float a) { return a < 0.0f ? tile::ceil(a) : tile::floor(a); }
__device__ __forceinline__ float sqrt(float a) { return tile::sqrt(a); }
