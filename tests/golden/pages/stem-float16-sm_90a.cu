// conv2d:n=8:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    stem tile_h=16 tile_w=16 atoms=2 slabs=2 warps=8 batch=2 blocks_per_sm=2
// launch    conv2d_repack_weights<<<56x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem<<<264x1x1, 256, 26048 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=3 C_GROUP=3 OUT_H=112 OUT_W=112 K=64 K_GROUP=64 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=100352 REDUCTION=147 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int TILE_H = 16;  // output rows per tile
TILE_W=16
constexpr int ATOMS = 2;  // groups of 8 output channels per warp
constexpr int SLABS = 2;  // slabs of these channels per block
WARPS=8
constexpr int BATCH = 2;  // groups of 16 pixels that a warp computes together
BLOCKS_PER_SM=2

@@ // Derived values.
WARP_SIZE=32 THREADS=256 TAPS_OF_WORD=1 PIXEL_WORDS=2 ROW_WORDS=16
constexpr int STEPS = 14;  // steps of eight words of a filter
SLAB_K=16 ALL_SLABS=4 TILES_H=7 TILES_W=7 SLAB_TILES=2 TILES=784 GRID_BLOCKS=264 SMEM_BYTES=26048

@@ 3ae28c07 in pages/stem-words-sm_90a.cu: static_assert(C <= 4 && C_GROUP == C && K_GROUP == K && REDUCTION == R * S * C,
@@ 3+3
static_assert(ROW_WORDS * TAPS_OF_WORD >= S * PIXEL_WORDS && STEPS * 8 >= R * ROW_WORDS,

// The input of a block's tile: PIXEL_WORDS words per pixel, with the pixel's channels and, of one channel of
// two bytes, that of the next tap. A filter row is ROW_WORDS words.
using Bits = unsigned short;  // one element
constexpr int BITS = 8 * sizeof(X), PER_WORD = 32 / BITS, CHANNELS_OF_WORD = PER_WORD / TAPS_OF_WORD;
static_assert(sizeof(W) == sizeof(X), "an element of w multiplies the element of x beside it");
static_assert(TAPS_OF_WORD == (C == 1 ? PER_WORD : 1) && PIXEL_WORDS == (C + PER_WORD - 1) / PER_WORD,
              "TAPS_OF_WORD must fill a word with neighbouring taps, and PIXEL_WORDS have all channels");
constexpr int ROW_TAPS = (ROW_WORDS + PIXEL_WORDS - 1) / PIXEL_WORDS * TAPS_OF_WORD;
constexpr int IN_ROWS = (TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int IN_COLUMNS = (TILE_W - 1) * STRIDE_W + (ROW_TAPS - TAPS_OF_WORD) * DILATION_W + 1;
// Rows begin at a multiple of four pixels of the image, so that whole words can be read.
constexpr int QUADS = (IN_COLUMNS + 3 + 3) / 4, PITCH = QUADS * 4 * PIXEL_WORDS;
static_assert(IN_W % 4 == 0 && (TAPS_OF_WORD == 1 || DILATION_W == 1), "IN_W must be a multiple of 4");
// Word `half` of a lane's two of a step, counted from the first of the filter. Lanes have neighbours where a
// pixel is whole pairs of words, and read both at once.
constexpr bool IN_PAIRS = PIXEL_WORDS % 2 == 0;
constexpr __device__ int unit_of(int step, int half, int lane) {
    return step * 8 + (IN_PAIRS ? lane % 4 * 2 + half : half * 4 + lane % 4);
}
// One tile is multiplied while the next one loads.
struct Input { alignas(16) unsigned word[IN_ROWS][PITCH]; };
struct Shared { Input x[2]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// The elements of four pixels and, if words have several taps, of those that follow. Either all four are in
// the image or none is. A load has four elements.
constexpr int LOAD_WORDS = sizeof(X), LOADS = C + (TAPS_OF_WORD > 1);
struct Vector { unsigned word[LOADS * LOAD_WORDS]; };
constexpr int VECTORS = IN_ROWS * QUADS, VECTORS_OF_THREAD = (VECTORS + THREADS - 1) / THREADS;

@@ c6c7effb in pages/stem-words-sm_90a.cu: __device__ __forceinline__ Vector load_vector(const Arguments& args, const Tile& tile, int i) {
@@ 7+2
    for (int j = 0; j < LOADS; ++j) {
        tile::Words<LOAD_WORDS> words = {};
@@ 10+1
            words = tile::load_words<LOAD_WORDS>(pixels + 4 * j);
@@ 12+0
#pragma unroll
        for (int k = 0; k < LOAD_WORDS; ++k) vector.word[j * LOAD_WORDS + k] = words.word[k];

// Returns the word that begins with an element of the vector. If a pixel's channels do not fill its words,
// the next pixel's first one is the rest of it, or zero: it is multiplied by zero.
__device__ __forceinline__ unsigned word_from(const Vector& vector, int element) {
    const int first = element / PER_WORD;
    if (element % PER_WORD == 0) return vector.word[first];
    if (first + 1 == LOADS * LOAD_WORDS) return vector.word[first] >> 16;
    return tile::pick<2, 3, 4, 5>(vector.word[first], vector.word[first + 1]);
}

__device__ __forceinline__ void put_vector(Input& input, int i, const Vector& vector) {
    unsigned* const to = &input.word[i / QUADS][i % QUADS * 4 * PIXEL_WORDS];
#pragma unroll
    for (int first = 0; first < 4 * PIXEL_WORDS; first += 4) {
        tile::Words<4> words;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int pixel = (first + j) / PIXEL_WORDS, of_pixel = (first + j) % PIXEL_WORDS;
            words.word[j] = word_from(vector, pixel * C + of_pixel * PER_WORD);
        }
        *reinterpret_cast<tile::Words<4>*>(to + first) = words;
    }
}

@@ 23df6eaa in pages/stem-words-sm_90a.cu: // Element `i` of register `half` of B in a lane: the index of the weight in its output channel.
@@ 4+3
    const int unit = unit_of(step, half, lane), r = unit / ROW_WORDS, word = unit % ROW_WORDS;
    const int s = word / PIXEL_WORDS * TAPS_OF_WORD + i / CHANNELS_OF_WORD;
    const int c = word % PIXEL_WORDS * PER_WORD + i % CHANNELS_OF_WORD;

// Returns the offset of a lane's word of half a step from the first word of the window. Words past the end of
// the filter are multiplied by zeros.
__device__ __forceinline__ int offset_of(int step, int half) {
    const auto unit = static_cast<unsigned>(unit_of(step, half, tile::lane()));
    const int row = unit / ROW_WORDS, word = unit % ROW_WORDS;
    const int column = word / PIXEL_WORDS * TAPS_OF_WORD * DILATION_W;
    return (row < R ? row : 0) * DILATION_H * PITCH + column * PIXEL_WORDS + word % PIXEL_WORDS;
}

// Loads the words of a step of a lane's two pixels, from the first word of the first one's window on.
__device__ __forceinline__ void load_fragment(const unsigned* window, int step, unsigned (&x)[A_REGISTERS]) {
    constexpr int ON = ROWS_ON * STRIDE_H * PITCH + COLUMNS_ON * STRIDE_W * PIXEL_WORDS;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned* const words = window + i * ON;
        if constexpr (IN_PAIRS) {
            const auto pair = tile::load_shared<2>(words + offset_of(step, 0));
            x[i] = pair.word[0];
            x[2 + i] = pair.word[1];
        } else {
            x[i] = words[offset_of(step, 0)];
            x[2 + i] = words[offset_of(step, 1)];
        }
    }
}

// Computes all products of the groups of 16 pixels that a warp processes together.
__device__ __forceinline__ void multiply(
    const Input& input, const Position (&position)[BATCH], int shift, const Filters& filters,
    Sums (&sums)[BATCH]) {
    const unsigned* window[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        const int of_row = (position[n].column * STRIDE_W + shift) * PIXEL_WORDS;
        window[n] = input.word[position[n].row * STRIDE_H] + of_row;
    }
#pragma unroll
    for (int i = 0; i < STEPS * BATCH; ++i) {
        unsigned x[A_REGISTERS];
        load_fragment(window[i % BATCH], i / BATCH, x);
        add_products(x, i / BATCH, filters, sums[i % BATCH]);
    }
}
