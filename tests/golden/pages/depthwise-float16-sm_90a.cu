// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    depthwise rows=8 columns=4 vector=4 run=1 threads=128
// launch    conv2d_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<10x1x1, 128, 0 B>>> when: call

@@ // Derived values.
LOAD_K=4 STORE_K=4 TILES_H=7 TILES_W=14 VECTORS=12 UNITS=1176

static_assert(C_GROUP == 1 && K == C * K_GROUP && REDUCTION == R * S,
              "C_GROUP must be 1, K must be C * K_GROUP");
static_assert(PIXELS / (ROWS * COLUMNS) * VECTORS <= UNITS, "UNITS must cover every output");
static_assert(RUN == 1 && X_SIGNED && W_SIGNED, "floats are signed, and multiplied one by one");
static_assert((K_GROUP == 1 || LOAD_K == 1) && C % LOAD_K == 0, "LOAD_K must divide C; 1 if K > C");
static_assert(VECTOR % LOAD_K == 0 && VECTOR % STORE_K == 0, "VECTOR must be a multiple of both");
static_assert(K % STORE_K == 0, "STORE_K must divide K");

struct E4m3s;
template <class Word>
constexpr bool IS_E4M3 = false;
template <>
constexpr bool IS_E4M3<E4m3s> = true;

// Converts the elements of a 32-bit word to floats. Where one instruction converts two 8-bit floats, it does.
template <class Word>
__device__ __forceinline__ void unpack(unsigned word, float* elements) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    if constexpr (Word::COUNT == 4) {
        unsigned halves[2];
        if constexpr (IS_E4M3<Word>) {
            asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b;}"
                : "=r"(halves[0]), "=r"(halves[1])
                : "r"(word));
        } else {
            asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e5m2x2 %0, a; cvt.rn.f16x2.e5m2x2 %1, b;}"
                : "=r"(halves[0]), "=r"(halves[1])
                : "r"(word));
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
                : "=f"(elements[2 * i]), "=f"(elements[2 * i + 1])
                : "r"(halves[i]));
        }
        return;
    }
#elif defined(__gfx950__) || defined(__GFX12__)
    if constexpr (Word::COUNT == 4) {
        const int four = static_cast<int>(word);
        const auto low = IS_E4M3<Word> ? __builtin_amdgcn_cvt_pk_f32_fp8(four, false)
                                       : __builtin_amdgcn_cvt_pk_f32_bf8(four, false);
        const auto high = IS_E4M3<Word> ? __builtin_amdgcn_cvt_pk_f32_fp8(four, true)
                                        : __builtin_amdgcn_cvt_pk_f32_bf8(four, true);
        elements[0] = low[0], elements[1] = low[1], elements[2] = high[0], elements[3] = high[1];
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < Word::COUNT; ++i) elements[i] = Word::of(word, i);
}

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    float* taps;  // filters as fp32: each tap of all channels

using XWord = tile::Halves;
using WWord = tile::Halves;

// Four bytes of neighbouring channels of a pixel are a word; a thread's channels are QUADS of them. Two 8-bit
// channels fill half of one.
constexpr int QUADS = (VECTOR + XWord::COUNT - 1) / XWord::COUNT;
struct Pixel { unsigned quad[QUADS]; };
struct Elements { float channel[QUADS * XWord::COUNT]; };

    // Converts pixel `i` to floats. The compiler does this once for all taps of the pixel.
    __device__ __forceinline__ Elements at(int i) const {
        Elements elements;
#pragma unroll
        for (int j = 0; j < QUADS; ++j) {
            tile::unpack<XWord>(pixel[i].quad[j], &elements.channel[j * XWord::COUNT]);
        }
        return elements;
    }
};

// Returns the input channel that output channel `k` filters. Some vectors extend past the last one.
__device__ __forceinline__ int channel_of(int k) {
    return (K % VECTOR == 0 || k < K ? k : K - LOAD_K) / K_GROUP;
}

// Loads channels LOAD_K at a time: either all of them exist or none does.
__device__ __forceinline__ Pixel load_pixel(const X* pixel, int k) {
    Pixel result = {};
    if constexpr (LOAD_K % XWord::COUNT == 0) {
        constexpr int LOADED = LOAD_K / XWord::COUNT, WORDS = LOADED > 4 ? 4 : LOADED < 1 ? 1 : LOADED;
#pragma unroll
        for (int i = 0; i < QUADS; i += WORDS) {
            const auto words = tile::load_words<WORDS>(pixel + channel_of(k + i * XWord::COUNT));
#pragma unroll
            for (int j = 0; j < WORDS; ++j) result.quad[i + j] = words.word[j];
        }
    } else {
        using Loaded = unsigned short;
#pragma unroll
        for (int i = 0; i < VECTOR; i += LOAD_K) {
            const unsigned loaded = tile::load(reinterpret_cast<const Loaded*>(pixel + channel_of(k + i)));
            result.quad[i / XWord::COUNT] |= loaded << (32 / XWord::COUNT * (i % XWord::COUNT));
        }
    }
    return result;
}

// The filters of a thread's channels.
struct Filters { float tap[R][S][VECTOR]; };

__device__ __forceinline__ Filters load_filters(const Arguments& args, int k) {
    constexpr int WORDS = VECTOR < 4 ? VECTOR : 4;
    Filters filters;
#pragma unroll
    for (int i = 0; i < R * S * VECTOR; i += WORDS) {
        const int tap = i / VECTOR, first = i % VECTOR;
        const auto words = tile::load_words<WORDS>(args.taps + tap * VECTORS * VECTOR + k + first);
#pragma unroll
        for (int j = 0; j < WORDS; ++j) {
            filters.tap[tap / S][tap % S][first + j] = tile::as_float(words.word[j]);
        }
    }
    return filters;
}

// The sums of an output pixel.
struct Sums { Sum product[VECTOR]; };

// Adds the products of one filter row, in order. Each product and sum is rounded once.
__device__ __forceinline__ void add_products(
    const Row& row, int column, int r, const Filters& filters, Sums& sums) {
#pragma unroll
    for (int s = 0; s < S; ++s) {
        const Elements x = row.at(column * STRIDE_W + s * DILATION_W);
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            sums.product[i] = tile::fma(x.channel[i], filters.tap[r][s][i], sums.product[i]);
        }
    }
}

@@ 845a1b1c in whole/depthwise-rows-sm_90a.cu:     Sums sums[ROWS][COLUMNS] = {};
@@ 8+3
        for (int r = 0; r < R; ++r) {
            const int down = i - r * DILATION_H;  // to the output's first row
            if (down < 0 || down % STRIDE_H != 0 || down / STRIDE_H >= ROWS) continue;
@@ 13+4
                Sums& pixel = sums[down / STRIDE_H][column];
                add_products(row, column, r, filters, pixel);
                if (r == R - 1) finish_pixel(args, patch, down / STRIDE_H, column, pixel, channels);

// Rearranges the filters for the kernel above, as fp32: one tap of all channels after the other. Runs once
// per set of weights, with one thread per element.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= R * S * VECTORS * VECTOR) return;
    const int k = index % (VECTORS * VECTOR), tap = index / (VECTORS * VECTOR);
    using Bits = unsigned short;
    const auto* const element = reinterpret_cast<const Bits*>(args.w + k * R * S + tap);
    args.taps[index] = k < K ? WWord::of(tile::load(element), 0) : 0.0f;
}
