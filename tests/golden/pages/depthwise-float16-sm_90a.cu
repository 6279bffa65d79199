// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    depthwise rows=8 columns=4 vector=4 run=1 threads=128
// launch    conv2d_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_depthwise<<<10x1x1, 128, 0 B>>> when: call

@@ // Derived values.
LOADS_BEFORE_BARRIER=false LOAD_K=4 STORE_K=4 TILES_H=7 TILES_W=14 VECTORS=12 UNITS=1176

static_assert(C_GROUP == 1 && K == C * K_GROUP && REDUCTION == R * S,
              "C_GROUP must be 1, K must be C * K_GROUP");
static_assert(PIXELS / (ROWS * COLUMNS) * VECTORS <= UNITS, "UNITS must cover every output");
static_assert(RUN == 1, "floats are multiplied one by one");
static_assert((K_GROUP == 1 || LOAD_K == 1) && C % LOAD_K == 0, "LOAD_K must divide C; 1 if K > C");
static_assert(VECTOR % LOAD_K == 0 && VECTOR % STORE_K == 0, "VECTOR must be a multiple of both");
static_assert(K % STORE_K == 0, "STORE_K must divide K");

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    float* taps;  // filters as fp32: each tap of all channels

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
