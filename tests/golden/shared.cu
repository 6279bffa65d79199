//
//   acc = sum over r, s, c of (x - x_zero) * (w - w_zero[k]), in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8

// round_small, as a float. Values that are too large for it stay large.
__device__ __forceinline__ float rounded(float a) {
    return __fadd_rn(__fadd_rn(a, 12582912.0f), -12582912.0f);
}

// Returns rounded(a) + more, for an integer `more` below 2^16, without an extra addition: the constant
// subtracted is smaller by `more`.
__device__ __forceinline__ float rounded(float a, float more) {
    return __fadd_rn(__fadd_rn(a, 12582912.0f), more - 12582912.0f);
}

__device__ __forceinline__ int wrapping_subtract(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) - static_cast<unsigned>(b));
}

// Rounds two numbers half to even, clamps them, and packs them into the lower bytes of a word whose upper two
// bytes are the lower two of `above`.
template <class Narrow>
__device__ __forceinline__ unsigned pack(float a, float b, unsigned above) {
    constexpr bool IS_SIGNED = Narrow(-1) < Narrow(0);
    constexpr float LOW = IS_SIGNED ? -128.0f : 0.0f, HIGH = IS_SIGNED ? 127.0f : 255.0f;
    const unsigned first = static_cast<unsigned>(round_small(clamp(a, LOW, HIGH))) & 0xffu;
    const unsigned second = static_cast<unsigned>(round_small(clamp(b, LOW, HIGH))) & 0xffu;
    return first | second << 8 | above << 16;
}

using X = unsigned char;
using W = signed char;
using Sum = int;
using Output = unsigned char;

// The kernel's only parameter.
struct Arguments {
    const X* x;  // activations, NHWC
    const W* w;  // weights, KRSC
    Output* y;  // output, NHWK
    int* offset;  // per channel: written by fold: the int32 bias and what x_zero_point adds
    const int* int32_bias;  // per channel: read by fold
    const int* w_zero;  // per channel: the weight zero point
    const float* multiplier;  // per channel: x_scale * w_scale / y_scale
    float top;  // 6 in units of the output
    float y_zero;  // the output zero point
    int x_zero;  // the input zero point
};

@@ 32d7ddfa in whole/fused-small-image-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 5+0
    int w_zero;
@@ 7+0
    float y_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+0
    channel.w_zero = tile::load(args.w_zero + k);
@@ 6+0
    channel.top = args.top;
    channel.y_zero = args.y_zero;

@@ 7736ea92 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters: its sum of products, and what else
@@ 5+0
    Sum x_sum;  // sum of the inputs in the element's window

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const Sum x_sum = inputs.x_sum;
@@ 8+0
    acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);
@@ 10+2
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

@@ a766e225 in whole/simt-body-sm_90a.cu: // Rounds half to even and clamps to the range of Output.
@@ 3+1
    constexpr float LEAST = 0.0f, LARGEST = 255.0f;

// The contribution of x_zero_point to every pixel of channel k. Padding is stored as x_zero, so it is
// constant:
//   offset[k] = -x_zero * sum(w[k])
//               + count * x_zero * w_zero, if the weights have zero points
//               + bias[k], if it is added to the sums
// It depends on the weights alone, so this kernel runs once per set of weights, with one block per channel.
struct FoldShared {
    Sum partial[FOLD_THREADS];
};

extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
    Sum* const partial = tile::shared_memory<FoldShared>().partial;
    const int k = tile::block_x();
    Sum sum = 0;
    for (int i = tile::thread(); i < REDUCTION; i += FOLD_THREADS) {
        sum += tile::load(args.w + k * REDUCTION + i);
    }
    partial[tile::thread()] = sum;
    for (int half = FOLD_THREADS / 2; half > 0; half /= 2) {
        tile::barrier();
        if (tile::thread() < half) partial[tile::thread()] += partial[tile::thread() + half];
    }
    if (tile::thread() == 0) {
        Sum offset = -args.x_zero * partial[0];
        const int w_zero = tile::load(args.w_zero + k);
        offset = tile::wrapping_add(offset, REDUCTION * args.x_zero * w_zero);
        offset = tile::wrapping_add(offset, tile::load(args.int32_bias + k));
        args.offset[k] = offset;
    }
}
//
//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(acc * multiplier)) as int8

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    float multiplier;  // x_scale * w_scale / y_scale

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 4+1

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 4+2
    channel.multiplier = args.multiplier;

@@ 1a17263c in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 9+1

@@ // The problem.
IN_H=224 IN_W=224 C=3 C_GROUP=3 OUT_H=112 OUT_W=112 K=64 K_GROUP=64 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=12544 REDUCTION=147 X_SIGNED=false W_SIGNED=true

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 3+3
    const X* x;  // activations, NCHW
    const W* w;  // weights, KCRS
    Output* y;  // output, NKHW
//
//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   y   = relu((acc + bias[k]) * multiplier), as float16

__device__ __forceinline__ unsigned short to_half(float a) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(a));
    return half;
}

using X = signed char;
using W = unsigned char;
using Sum = int;
using Output = unsigned short;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    float multiplier;  // x_scale * w_scale

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 5+0
    float bias;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+1
    channel.bias = tile::load(args.bias + k);
    channel.multiplier = args.multiplier;

using Finished = Output;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 9+0
    value = tile::add(value, channel.bias);
@@ 11+1
    result = tile::to_half(value);

__device__ __forceinline__ Output narrow(Finished finished) { return finished; }

@@ cd3dfecd in whole/simt-body-sm_90a.cu: // Stores COUNT neighbouring output elements. The address must be aligned to the largest power of two that
@@ 5+14

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 15+3

__device__ __forceinline__ float magnitude(float a) { return fabsf(a); }

__device__ __forceinline__ unsigned as_bits(float a) { return __float_as_uint(a); }
__device__ __forceinline__ float as_float(unsigned bits) { return __uint_as_float(bits); }

// Activations, composed of correctly rounded operations only, so that every device returns the same bits.

// Flushes denormals to zero, whether or not the hardware does, and the binade above them too: some hardware
// flushes results that would round up to the least normal number.
__device__ __forceinline__ float flush(float a) {
    return magnitude(a) < 0x1p-125f ? multiply(a, 0.0f) : a;
}

// Evaluates a + b x + c x^2 + ..., rounding once per step.
__device__ __forceinline__ float horner(float, float last) { return last; }
template <class... Rest>
__device__ __forceinline__ float horner(float x, float first, Rest... rest) {
    return fma(x, horner(x, rest...), first);
}

// Computes e^a. The argument is clamped so that neither the result nor its inverse is infinite or denormal.
__device__ __forceinline__ float exponential(float a) {
    const float x = clamp(a, -87.0f, 87.0f);
    // n = x / ln 2, rounded: in a sum with 1.5 * 2^23 the last bit is worth one.
    const float shifted = fma(x, 1.44269504f, 12582912.0f), whole = add(shifted, -12582912.0f);
    // r = x - n ln 2, with ln 2 split into two floats.
    const float r = fma(whole, 2.12194440e-4f, fma(whole, -0.693359375f, x));
    const float rest = horner(r,
        0.5f, 0.16666666f, 0.041665796f, 0.008333452f,
        0.0013981999f, 0.00019875691f);
    const float e_to_r = add(fma(multiply(r, r), rest, r), 1.0f);
    // times 2^n; n is in the lowest bits of `shifted`
    return as_float(as_bits(e_to_r) + (as_bits(shifted) << 23));
}
//
//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   v   = (acc * scale[k] + bias[k])
//   r   = fma(residual - residual_zero, residual_scale, v)
//   y   = clamp(round_half_to_even(relu(r) * inverse + y_zero)) as uint8

@@ 274e85a2 in shared.cu: using X = unsigned char;
@@ 5+0
using Residual = unsigned char;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 6+0
    const Residual* residual;  // added before the activation, NHWK
@@ 7+4
    const float* scale;  // per channel: x_scale * w_scale
    const float* bias;  // per channel: the bias, in real units
    float residual_scale;  // the scale of the residual
    int residual_zero;  // the zero point of the residual
    float inverse;  // 1 / y_scale

@@ b18b6a1b in pages/simt-body-et-vulkan-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 4+0
    int offset;
@@ 6+0
    float residual_scale;
    int residual_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+1
    channel.scale = tile::load(args.scale + k);
    channel.bias = tile::load(args.bias + k);
    channel.residual_scale = args.residual_scale;
    channel.residual_zero = args.residual_zero;
    channel.inverse = args.inverse;
    channel.y_zero = args.y_zero;

@@ 7736ea92 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters: its sum of products, and what else
@@ 5+0
    int residual;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const int residual = inputs.residual;
@@ 9+1
    value = tile::add(tile::multiply(value, channel.scale), channel.bias);
    const float added = static_cast<float>(residual - channel.residual_zero);
    value = tile::fma(added, channel.residual_scale, value);
@@ 11+0
    value = tile::multiply(value, channel.inverse);
    value = tile::add(value, channel.y_zero);

// A pixel of the convolution, whose channels are a block of SHUFFLE_H x SHUFFLE_W pixels of the output: first
// those of the block's first pixel, then those of the pixel on its right, and so on, row by row. With groups,
// each group's channels are such a block, and the output's channels are those of the first group, then those
// of the next. The blocks of all pixels side by side are larger than the output, which begins CROP_TOP rows
// and CROP_LEFT columns within them and ends Y_H rows and Y_W columns behind that. So the phases of a
// transposed convolution need no copy to get to their pixels.
struct ShuffledPixel {
    int image, row, column;

    // Return where the output of channel `k` is.
    __device__ __forceinline__ int y_row(int k) const {
        return row * SHUFFLE_H + k % K_GROUP / Y_GROUP / SHUFFLE_W - CROP_TOP;
    }
    __device__ __forceinline__ int y_column(int k) const {
        return column * SHUFFLE_W + k % K_GROUP / Y_GROUP % SHUFFLE_W - CROP_LEFT;
    }
    __device__ __forceinline__ int y_channel(int k) const { return k / K_GROUP * Y_GROUP + k % Y_GROUP; }

    __device__ __forceinline__ bool is_cropped(int k) const {
        const int y = y_row(k), x = y_column(k);
        return y < 0 || y >= Y_H || x < 0 || x >= Y_W;
    }

    // Returns the index of channel `k` in the output, or -1 where it is cropped.
    __device__ __forceinline__ int index_of(int k) const {
        if (is_cropped(k)) return -1;
        return ((image * Y_H + y_row(k)) * Y_W + y_column(k)) * Y_C + y_channel(k);
    }
};

__device__ __forceinline__ ShuffledPixel shuffled_pixel(unsigned pixel) {
    const int image = pixel / (OUT_H * OUT_W), row = pixel / OUT_W % OUT_H, column = pixel % OUT_W;
    return {image, row, column};
}

// Writes neighbouring channels of a pixel, VECTOR at a time, as far as they are outputs, and below `k_end`
// unless ALL_EXIST. A vector lies in one pixel of the output.
template <int VECTOR, bool ALL_EXIST, int COUNT>
__device__ __forceinline__ void write_shuffled(
    Output* y, const ShuffledPixel& pixel, int k, int k_end, const Finished (&finished)[COUNT]) {
    static_assert(Y_GROUP % VECTOR == 0 && COUNT % VECTOR == 0,
                  "vectors must divide the channels of a pixel");
#pragma unroll
    for (int first = 0; first < COUNT; first += VECTOR) {
        const int index = pixel.index_of(k + first);
        if ((!ALL_EXIST && k + first >= k_end) || index < 0) continue;
        Finished vector[VECTOR];
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) vector[i] = finished[first + i];
        write(y + index, vector);
    }
}
//
//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
//   Channel (2 * a + b) * 64 + k at (row, column) is the output k at (2 * row + a - 1, 2 * column + b - 1).

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=29 OUT_W=29 K=256 K_GROUP=256 R=2 S=2 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6728 REDUCTION=512 X_SIGNED=true
W_SIGNED=true SHUFFLE_H=2 SHUFFLE_W=2 CROP_TOP=1 CROP_LEFT=1 Y_H=56 Y_W=56 Y_C=64 Y_GROUP=64

constexpr bool WHOLE_TILES = K % TILE_M == 0;  // whether every channel of every tile exists
//
//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8

@@ 32d7ddfa in whole/fused-small-image-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 7+0
    float y_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 6+0
    channel.top = args.top;
    channel.y_zero = args.y_zero;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 10+2
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

// TMA pads with zeros, but a real zero is x_zero: the contribution of x_zero to an output depends on which of
// its taps are inside the image. All rows whose windows are inside form one class, and every other row is its
// own class; likewise for columns.
template <int BEFORE, int BEHIND, int SIZE>
struct Borders {
    // Returns the class of a row or a column; of those past the last, that of the last.
    static __device__ __forceinline__ int class_of(int place) {
        const int at = place < SIZE ? place : SIZE - 1, behind = at - (SIZE - BEHIND) + 1;
        return (at < BEFORE ? at : BEFORE) + (behind > 0 ? behind : 0);
    }
    // Returns a row or a column of a class.
    static __device__ __forceinline__ int place_of(int number) {
        return number <= BEFORE ? number : number - BEFORE - 1 + SIZE - BEHIND;
    }
};
using Rows = Borders<ROWS_BEFORE, ROWS_BEHIND, OUT_H>;
using Columns = Borders<COLUMNS_BEFORE, COLUMNS_BEHIND, OUT_W>;
using Images = Borders<IMAGES_BEFORE, IMAGES_BEHIND, IMAGES>;  // of a volume
constexpr int CLASSES = IMAGE_CLASSES * ROW_CLASSES * COLUMN_CLASSES;

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 15+2

// Computes what conv2d_fold computes for inner pixels, for every class of border pixels. Runs once per set of
// weights, with one thread per class and channel.
extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold_borders(const Arguments args) {
    const int index = tile::block_x() * FOLD_THREADS + tile::thread();
    if (index >= CLASSES * K) return;
    const int k = index % K, number = index / K;
    const int first_row = Rows::place_of(number / COLUMN_CLASSES % ROW_CLASSES) * STRIDE_H - PAD_TOP;
    const int first_column = Columns::place_of(number % COLUMN_CLASSES) * STRIDE_W - PAD_LEFT;
    Sum sum = 0;
    const int image = Images::place_of(number / (ROW_CLASSES * COLUMN_CLASSES));
    const int first_frame = image * FRAME_STRIDE - FRAMES_BEFORE;
    for (int tap = 0; tap < R * S * FRAME_TAPS; ++tap) {
        const int frame = first_frame + tap % FRAME_TAPS * FRAME_DILATION;
        const int row = first_row + tap / FRAME_TAPS / S * DILATION_H;
        const int column = first_column + tap / FRAME_TAPS % S * DILATION_W;
        if (frame < 0 || frame >= FRAMES || row < 0 || row >= IN_H || column < 0 || column >= IN_W) continue;
        for (int c = 0; c < FRAME_C; ++c) sum += tile::load(args.w + (k * REDUCTION + tap * FRAME_C + c));
    }
    args.borders[index] = tile::wrapping_add(-args.x_zero * sum, tile::load(args.int32_bias + k));
}

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 8+0
    int* fragments;  // filters, in the order in which a warp's lanes hold them

// A block's tile: TILE_H x TILE_W output pixels of one image by SLABS channel slabs. Blocks of the same
// pixels have neighbouring indices, because they share cache lines.
struct Tile {
    int slab, column, row, n;

    __device__ __forceinline__ explicit Tile(unsigned block)
        : slab(block % SLAB_TILES * SLABS),
          column(block / SLAB_TILES % TILES_W * TILE_W),
          row(block / (SLAB_TILES * TILES_W) % TILES_H * TILE_H),
          n(block / (SLAB_TILES * TILES_W * TILES_H)) {}
};

// A warp's filters: the B fragments of every step.
struct Filters { unsigned word[STEPS][ATOMS][B_REGISTERS]; };

__device__ __forceinline__ Filters load_filters(const Arguments& args, int slab) {
    Filters filters;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int j = 0; j < ATOMS; ++j) {
            const int index = ((slab * STEPS + step) * ATOMS + j) * 32 + tile::lane();
            const auto words = tile::load_words<2>(args.fragments + 2 * index);
#pragma unroll
            for (int i = 0; i < B_REGISTERS; ++i) filters.word[step][j][i] = words.word[i];
        }
    }
    return filters;
}

// Maps a column of B to an output channel of the slab, so that each lane ends up with LANE_K neighbouring
// channels.
constexpr int LANE_K = 2 * ATOMS;
__device__ __forceinline__ int channel_of_column(int atom, int column) {
    return column / 2 * LANE_K + atom * 2 + column % 2;
}

struct Sums {
    Sum product[ATOMS][D_REGISTERS];
};

// Multiplies one step of 16 pixels by the filters and adds the products to `sums`.
__device__ __forceinline__ void add_products(
    const unsigned (&x)[A_REGISTERS], int step, const Filters& filters, Sums& sums) {
#pragma unroll
    for (int j = 0; j < ATOMS; ++j) {
        multiply_add(x, filters.word[step][j], sums.product[j]);
    }
}

// Groups of 16 pixels of a tile, in one row or in two, and the position of a lane's first pixel in its group.
// The lane's second pixel is eight pixels further.
static_assert(TILE_H * TILE_W % (16 * BATCH) == 0 && (TILE_W == 8 || TILE_W % 16 == 0),
              "a tile must be whole sixteens");
constexpr int SIXTEENS = TILE_H * TILE_W / 16;
constexpr int SIXTEENS_OF_ROW = TILE_W < 16 ? 1 : TILE_W / 16, ROWS_OF_SIXTEEN = TILE_W < 16 ? 2 : 1;
struct Position { int row, column; };
__device__ __forceinline__ Position position_of(int sixteen) {
    return {sixteen / SIXTEENS_OF_ROW * ROWS_OF_SIXTEEN, sixteen % SIXTEENS_OF_ROW * 16 + tile::lane() / 4};
}
constexpr int ROWS_ON = TILE_W < 16 ? 1 : 0, COLUMNS_ON = TILE_W < 16 ? 0 : 8;

// Rearranges the filters into the B fragments of a warp. Runs once per set of weights, with one thread per
// word.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= ALL_SLABS * STEPS * ATOMS * 32 * B_REGISTERS) return;
    const int half = index % 2, lane = index / 2 % 32, atom = index / 64 % ATOMS;
    const int step = index / (64 * ATOMS) % STEPS, slab = index / (64 * ATOMS * STEPS);
    const int local_k = channel_of_column(atom, lane / 4), k = slab * SLAB_K + local_k;
    unsigned word = 0;
    for (int i = 0; i < 4; ++i) {
        const Element element = element_of(local_k, step, half, lane, i);
        if (!element.exists || k >= K) continue;
        const unsigned byte = static_cast<unsigned char>(tile::load(args.w + k * REDUCTION + element.at));
        word |= byte << (8 * i);
    }
    args.fragments[index] = static_cast<int>(word);
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 6+0
    const Residual* residual;  // added before the activation, NHWK
@@ 7+4
    const float* scale;  // per channel: x_scale * w_scale
    const float* bias;  // per channel: the bias, in real units
    int* fragments;  // filters, in the order in which a warp's lanes hold them
    float residual_scale;  // the scale of the residual
    int residual_zero;  // the zero point of the residual
    float inverse;  // 1 / y_scale

@@ c075ae5f in whole/mma-body-sm_90a.cu: // Computes D += A * B, by one warp.
@@ 4+1
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "

@@ // The problem.
IN_H=224 IN_W=224 C=3 C_GROUP=3 OUT_H=112 OUT_W=112 K=64 K_GROUP=64 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=12544 REDUCTION=147 X_SIGNED=true W_SIGNED=true

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 15+2

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 12+1
        const auto scale = tile::load_vector<WIDTH>(args.scale + first);
@@ 14+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].scale = scale.element[j];
        const auto bias = tile::load_vector<WIDTH>(args.bias + first);
@@ 16+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].bias = bias.element[j];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].residual_scale = args.residual_scale;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].residual_zero = args.residual_zero;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].inverse = args.inverse;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].y_zero = args.y_zero;

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=28 OUT_W=28 K=128 K_GROUP=128 R=3 S=3 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=1152 X_SIGNED=false
W_SIGNED=true

// Converts byte `i` of a word to float in two instructions; with shifts and masks the compiler emits more.
template <class Byte>
__device__ __forceinline__ float byte_as_float(unsigned word, int i) {
    if constexpr (Byte(-1) < Byte(0)) {
        int byte;  // the sign three times, then the byte
        asm("prmt.b32 %0, %1, 0, %2;" : "=r"(byte) : "r"(word), "r"(0x8880 + 0x1111 * i));
        return static_cast<float>(byte);
    }
    return static_cast<float>(__byte_perm(word, 0, 0x4440 + i));
}

@@ 7736ea92 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters: its sum of products, and what else
@@ 5+0
    float residual;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const float residual = inputs.residual;
@@ 9+1
    value = tile::add(tile::multiply(value, channel.scale), channel.bias);
    const float added = static_cast<float>(residual - channel.residual_zero);
    value = tile::fma(added, channel.residual_scale, value);
@@ 11+0
    value = tile::multiply(value, channel.inverse);
    value = tile::add(value, channel.y_zero);

@@ 46ebc331 in shared.cu: // TMA pads with zeros, but a real zero is x_zero: the contribution of x_zero to an output depends on which of
@@ 18+2
constexpr int CLASSES = ROW_CLASSES * COLUMN_CLASSES;

// Returns the class of a pixel, or -1 if all of its taps are inside the image.
__device__ __forceinline__ int border_of(int pixel) {
    const unsigned of_row = static_cast<unsigned>(pixel) / OUT_W;  // which divides in fewer instructions
    const int row = static_cast<int>(of_row % OUT_H), column = pixel - static_cast<int>(of_row) * OUT_W;
    const bool inside = row >= ROWS_BEFORE && row < OUT_H - ROWS_BEHIND && column >= COLUMNS_BEFORE &&
                        column < OUT_W - COLUMNS_BEHIND;
    return inside ? -1 : Rows::class_of(row) * COLUMN_CLASSES + Columns::class_of(column);
}

@@ 700805ba in shared.cu: // Computes what conv2d_fold computes for inner pixels, for every class of border pixels. Runs once per set of
@@ 10+8
    for (int tap = 0; tap < R * S; ++tap) {
        const int row = first_row + tap / S * DILATION_H, column = first_column + tap % S * DILATION_W;
        if (row < 0 || row >= IN_H || column < 0 || column >= IN_W) continue;
        for (int c = 0; c < C; ++c) sum += tile::load(args.w + (k * REDUCTION + tap * C + c));
@@ 19+1
    args.borders[index] = -args.x_zero * sum;
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   v   = (acc + bias[k]) * multiplier[k]
//   r   = float8_e4m3fn(v) * inner_scale + residual * residual_scale
//   y   = relu(r) / y_scale, saturated, as float8_e4m3fn

__device__ __forceinline__ float half_to_float(unsigned short half) {
    float a;
    asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(half));
    return a;
}

// Converts byte `i` of a word to int in one instruction.
template <class Byte>
__device__ __forceinline__ int byte_as_int(unsigned word, int i) {
    int byte;  // and above it its sign three times, or zeros
    const int selector = (Byte(-1) < Byte(0) ? 0x8880 : 0x4440) + 0x1111 * i;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(byte) : "r"(word), "r"(selector));
    return byte;
}

// The elements of a 32-bit word as floats: four of OCP's e4m3. Their bits are those of a half but for the
// exponent's bias, 7 instead of 15; beyond the largest number there is only NaN.
struct E4m3s {
    static constexpr int COUNT = 4, MANTISSA = 3;
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

using X = unsigned char;
using W = unsigned char;
using Sum = float;
using Output = unsigned char;
using Residual = unsigned char;

// The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
// thread loads them once for all its outputs of the channel.
struct Channel {
    float bias;
    float multiplier;
    float inner_scale;
    float residual_scale;
    float y_scale;
};

__device__ __forceinline__ Channel load_channel(
    [[maybe_unused]] const Arguments& args, [[maybe_unused]] int k) {
    Channel channel;
    channel.bias = tile::load(args.bias + k);
    channel.multiplier = tile::load(args.multiplier + k);
    channel.inner_scale = args.inner_scale;
    channel.residual_scale = args.residual_scale;
    channel.y_scale = args.y_scale;
    return channel;
}

// The type that `narrow` converts to an output element.
using Finished = float;
using Narrow = tile::PackedE4m3s;

@@ 1a17263c in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const int residual = inputs.residual;
@@ 8+0
    value = tile::add(value, channel.bias);
@@ 9+1
    value = tile::multiply(tile::E4m3s::of(tile::PackedE4m3s::one(value), 0), channel.inner_scale);
    const float added = tile::E4m3s::of(static_cast<unsigned char>(residual), 0);
    value = tile::add(value, tile::multiply(added, channel.residual_scale));
    value = tile::maximum(value, 0.0f);
    value = tile::divide(value, channel.y_scale);

__device__ __forceinline__ Output narrow(Finished finished) { return Narrow::one(finished); }

@@ cd3dfecd in whole/simt-body-sm_90a.cu: // Stores COUNT neighbouring output elements. The address must be aligned to the largest power of two that
@@ 5+2
    if constexpr (COUNT % Narrow::COUNT == 0) {
        constexpr int ALL = COUNT / Narrow::COUNT, WORDS = ALL % 4 == 0 ? 4 : ALL % 2 == 0 ? 2 : 1;
@@ 8+1
        for (int i = 0; i < ALL; i += WORDS) {
@@ 11+5
            for (int j = 0; j < WORDS; ++j) words.word[j] = Narrow::word(&finished[(i + j) * Narrow::COUNT]);
            *reinterpret_cast<tile::Words<WORDS>*>(to + i * Narrow::COUNT) = words;

@@ d4c5abfd in whole/wgmma-body-sm_90a.cu: // Waits until all but the latest GROUPS groups have read their factors and completed their sums. Before
@@ 10+1
        asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]));

// Reads back what store_matrices stored of four matrices, to the same lanes.
__device__ __forceinline__ void load_transposed(const void* row, unsigned (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

@@ 16fb762f in pages/halo-phases-sm_90a.cu: // Makes outputs of a consumer's sums. Lanes store those that lie in the image, VECTOR_K channels at a time.
@@ 21+1
                Output* const to = args.y + (((tiles.image() * OUT_H + row) * OUT_W + column) * K + k);
@@ 23+2
                for (int h = 0; h < CHANNELS; h += VECTOR_K) {
                    if (!WHOLE_TILES && k + h >= K) continue;
                    Finished vector[VECTOR_K];
#pragma unroll
                    for (int i = 0; i < VECTOR_K; ++i) vector[i] = finished[e * CHANNELS + h + i];
                    write(to + h, vector);
                }

// A barrier for all threads of the cluster, split into arrive and wait. The arrive does not release memory.
__device__ __forceinline__ void arrive_at_cluster() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ unsigned address_in_block(const void* object, int block) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(object)), "r"(block));
    return address;
}

// Sends `value` to the counterpart of `object` in another block of the cluster.
template <class Object>
__device__ __forceinline__ void send(
    const Object& object, const Mbarrier& mbarrier, int block, const Object& value) {
    const unsigned to = address_in_block(&object, block), at = address_in_block(&mbarrier, block);
    const unsigned* const word = reinterpret_cast<const unsigned*>(&value);
    if constexpr (sizeof(Object) == 16) {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
            ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]), "r"(at)
            : "memory");
    } else if constexpr (sizeof(Object) == 8) {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
            ::"r"(to), "r"(word[0]), "r"(word[1]), "r"(at)
            : "memory");
    } else {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
            ::"r"(to), "r"(word[0]), "r"(at)
            : "memory");
    }
}

struct Operand {
    unsigned long long descriptor;

// Stands for asynchronous copies in a kernel that has none: all loads pass through registers.
struct Copies {
    __device__ __forceinline__ void commit() {}
    template <int GROUPS>
    __device__ __forceinline__ void wait() {}
};

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=1 OUT_H=56 OUT_W=56 K=144 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=100352 REDUCTION=9 X_SIGNED=true W_SIGNED=true

// An address in shared memory, in the form that ldmatrix takes.
using Address = tile::SharedAddress;
__device__ __forceinline__ Address address_of(unsigned char* byte) { return tile::shared_address(byte); }

// Loads one fragment of an atom's pixels; each lane supplies the address of 16 bytes of one pixel.
__device__ __forceinline__ XFragment load_pixels(Address address) {
    XFragment fragment;
    tile::load_matrices(address, fragment.word);
    return fragment;
}

// Layout of a lane's weights: one row of the atom, and in each register a word of one chunk.
constexpr int W_WORDS = B_REGISTERS;
__device__ __forceinline__ int row_of_lane(int lane) { return lane / 4; }
__device__ __forceinline__ int chunk_of_word(int, int word) { return word; }
__device__ __forceinline__ int byte_of_word(int lane, int) { return lane % 4 * 4; }

// A warp computes SLAB_K output channels, a slab, of BATCH atoms of pixels at a time. A lane ends up with
// LANE_K neighbouring channels of each of its pixels. The reduction of a slab is UNITS chunks of 16 bytes:
// the input channels of its groups, tap after tap.
constexpr int LANE_K = ATOMS * LANE_CHANNELS, RUN = BATCH * ATOM_M, RUNS = (GRID_PIXELS + RUN - 1) / RUN;
static_assert(SLAB_K == ATOMS * ATOM_N, "SLAB_K must be ATOMS * ATOM_N");
static_assert(STEPS * STEP_CHUNKS >= UNITS, "STEPS must cover the reduction");
static_assert(TAPS == R * S && UNITS == TAPS * CHUNKS && ALL_CHUNKS * X_CHUNK >= C,
              "UNITS must cover the reduction of a slab");

__device__ __forceinline__ int channel_of(int slab, int atom, int row) {
    return slab * SLAB_K + lane_of_channel(row) * LANE_K + atom * LANE_CHANNELS + index_of_channel(row);
}

// The first chunk of input channels that a slab needs.
constexpr __device__ int first_chunk_of(int slab) {
    if (C_GROUP == C) return 0;
    const int first = slab * SLAB_K / K_GROUP * C_GROUP / X_CHUNK;
    return first < ALL_CHUNKS - CHUNKS ? first : ALL_CHUNKS - CHUNKS;
}

// The weights as lanes hold them: W_GROUPS groups of words of each lane, for each step of each slab. With a
// zero point of the weights, a step has a second set of words: ones in place of the weights, which add up a
// window.
constexpr int LANE_WORDS = ATOMS * W_WORDS, TWOS = LANE_WORDS & -LANE_WORDS;  // a power of two
constexpr int GROUP_WORDS = TWOS < 4 ? TWOS : 4, W_GROUPS = LANE_WORDS / GROUP_WORDS;
constexpr int SET_WORDS = LANE_WORDS * WARP_SIZE, SETS = ADDS_WINDOWS ? 2 : 1;
constexpr int STEP_WORDS = SETS * SET_WORDS, SLAB_WORDS = STEPS * STEP_WORDS;
struct Weights {
    WFragment set[SETS][ATOMS];
};

// The block's weights, in device memory.
struct BlockWeights {
    const int* words;

    template <class Shared>
    __device__ __forceinline__ BlockWeights(const Arguments& args, Shared&) : words(args.fragments) {}

@@ 76d26c2d in whole/fused-small-image-sm_90a.cu:     __device__ __forceinline__ void load(Team&, const Arguments&) const {}
@@ 4+1

    // Maps a slab, the block's `index`-th, to its place in memory.
    static __device__ __forceinline__ int place_of(int, int slab) { return slab; }
    template <int WORDS>
    static __device__ __forceinline__ tile::Words<WORDS> load_words(const int* from) {
        return tile::load_words<WORDS>(from);
    }
};

// Loads the weights of a slab, step after step. It moves an index and not a pointer: in a loop with many sums
// ptxas 13.0 reads through such a pointer before it is set.
struct WeightsAt {
    const int* words;
    unsigned index;

    __device__ __forceinline__ WeightsAt(const int* words, int slab)
        : words(words), index(slab * SLAB_WORDS + tile::lane() * GROUP_WORDS) {}

    __device__ __forceinline__ Weights load() {
        Weights weights;
#pragma unroll
        for (int set = 0; set < SETS; ++set) {
            load_fragments(words + index + set * SET_WORDS, weights.set[set]);
        }
        index += STEP_WORDS;
        return weights;
    }

private:
    static __device__ __forceinline__ void load_fragments(const int* words, WFragment (&atoms)[ATOMS]) {
#pragma unroll
        for (int group = 0; group < W_GROUPS; ++group) {
            const int* const from = words + group * (GROUP_WORDS * WARP_SIZE);
            const auto loaded = BlockWeights::load_words<GROUP_WORDS>(from);
#pragma unroll
            for (int i = 0; i < GROUP_WORDS; ++i) {
                const int word = group * GROUP_WORDS + i;
                atoms[word / W_WORDS].word[word % W_WORDS] = loaded.word[i];
            }
        }
    }
};

// Writes the weights in that order: once for a set of weights, one thread per word.
__device__ __forceinline__ void repack_weights(const Arguments& args) {
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= ALL_SLABS * STEPS * SET_WORDS) return;
    const int lane = index / GROUP_WORDS % WARP_SIZE, group = index / (GROUP_WORDS * WARP_SIZE) % W_GROUPS;
    const int word = group * GROUP_WORDS + index % GROUP_WORDS;
    const int step = index / SET_WORDS % STEPS, slab = index / (SET_WORDS * STEPS);
    const int k = channel_of(slab, word / W_WORDS, row_of_lane(lane));
    const int unit = step * STEP_CHUNKS + chunk_of_word(lane, word % W_WORDS);
    constexpr int BYTES = sizeof(W);
    const int first = (first_chunk_of(slab) + unit % CHUNKS) * X_CHUNK +
                      byte_of_word(lane, word % W_WORDS) / BYTES;
    unsigned bytes = 0, ones = 0;
    for (int i = 0; i < 4 / BYTES; ++i) {
        const int c = first + i - k / K_GROUP * C_GROUP;  // in the channel's group
        if (k >= K || unit >= UNITS || c < 0 || c >= C_GROUP) continue;
        bytes |= weight_bits(args, k, unit / CHUNKS, c) << (8 * BYTES * i);
        ones |= 1u << (8 * BYTES * i);
    }
    const int at = ADDS_WINDOWS ? index + index / SET_WORDS * SET_WORDS : index;
    args.fragments[at] = static_cast<int>(bytes);
    if constexpr (ADDS_WINDOWS) args.fragments[at + SET_WORDS] = static_cast<int>(ones);
}

// The sums of a lane: the products with each set of words.
struct Sums {
    Sum set[SETS][BATCH][ATOMS][D_REGISTERS];
};

// The distance in bytes from the first unit of a window to another.
constexpr __device__ int offset_of(int unit) {
    const int tap = TAPS > 1 ? unit / CHUNKS : 0, chunk = TAPS > 1 ? unit % CHUNKS : unit;
    if (UNITS % STEP_CHUNKS != 0 && unit >= UNITS) return 0;
    const int row = tap / S * DILATION_H, column = Layout::column(tap % S * DILATION_W);
    return (chunk * SOURCE_PLANE + row * Layout::ROW + column) * 16;
}

// The addresses of the windows that a lane loads for its warp: of one pixel of each atom.
struct Windows {
    Address first[BATCH];

    __device__ __forceinline__ Windows(Source& source, int slab, int first_pixel) {
        Address base = address_of(&source.byte[first_chunk_of(slab)][0][0]);
        if constexpr (WHOLE_TAPS) base += lane_chunk() * (SOURCE_PLANE * 16);
#pragma unroll
        for (int n = 0; n < BATCH; ++n) {
            constexpr bool IS_STRIDED = ATOM_M % GRID_COLUMNS == 0 && GRID_PIXELS % RUN == 0;
            if (IS_STRIDED && n > 0) {
                first[n] = first[0] + n * (ATOM_M / GRID_COLUMNS * STRIDE_H * Layout::ROW * 16);
                continue;
            }
            const int pixel = first_pixel + n * ATOM_M + tile::lane() % ATOM_M;
            const int existing = GRID_PIXELS % RUN == 0 || pixel < GRID_PIXELS ? pixel : GRID_PIXELS - 1;
            const int row = existing / GRID_COLUMNS * STRIDE_H;
            const int column = existing % GRID_COLUMNS * Layout::STEP;
            first[n] = base + (row * Layout::ROW + column) * 16;
        }
    }

    // The chunk of a step that the lane loads.
    static __device__ __forceinline__ int lane_chunk() { return tile::lane() / ATOM_M % STEP_CHUNKS; }
};

// Multiplies one step, whose bytes lie `offset` bytes from the first of each window.
__device__ __forceinline__ void multiply_step(
    const Windows& windows, int offset, const Weights& weights, Sums& sums) {
    XFragment x[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) x[n] = load_pixels(windows.first[n] + offset);
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
#pragma unroll
        for (int j = 0; j < ATOMS; ++j) {
#pragma unroll
            for (int set = 0; set < SETS; ++set) multiply_add(x[n], weights.set[set][j], sums.set[set][n][j]);
        }
    }
}

// Multiplies a slab with BATCH atoms of pixels, in one loop over the chunks of its reduction. The weights of
// the next step are loaded while one is multiplied; after the last step of the last slab one more is loaded.
__device__ __forceinline__ void multiply(WeightsAt at, const Windows& windows, Sums& sums) {
    Weights next = at.load();
    const int lane_chunk = Windows::lane_chunk();
#pragma unroll UNROLL
    for (int unit = 0; unit < UNITS; unit += STEP_CHUNKS) {
        const Weights weights = next;
        next = at.load();
        int offset = IS_ROLLED && !WHOLE_TAPS ? offset_of(unit + lane_chunk) : offset_of(unit);
        if constexpr (!IS_ROLLED && !WHOLE_TAPS) {
#pragma unroll
            for (int i = 1; i < STEP_CHUNKS; ++i) offset = lane_chunk == i ? offset_of(unit + i) : offset;
        }
        multiply_step(windows, offset, weights, sums);
    }
}

__device__ __forceinline__ void finish_pixels(
    const Sink& sink, int k, int first_pixel, const Sums& sums, const Channel (&channels)[LANE_K]) {
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
#pragma unroll
        for (int i = 0; i < LANE_PIXELS; ++i) {
            const int pixel = first_pixel + n * ATOM_M + pixel_of_lane(i);
            if (GRID_PIXELS % RUN != 0 && pixel >= GRID_PIXELS) continue;
            Inputs inputs[LANE_K];
#pragma unroll
            for (int j = 0; j < LANE_K; ++j) {
                const int atom = j / LANE_CHANNELS, d = register_of(i, j % LANE_CHANNELS);
                inputs[j].acc = sums.set[0][n][atom][d];
            }
            finish_pixel(sink, pixel, k, inputs, channels);
        }
    }
}

// Computes the outputs of a tile's pixels: the warps take turns at slabs and runs of pixels.
__device__ __forceinline__ void run(
    const Team& team, const Arguments& args, const BlockWeights& block_weights, Source& source,
    const Sink& sink) {
#pragma unroll 1
    for (int item = team.warp(); item < BLOCK_SLABS * RUNS; item += THREADS / WARP_SIZE) {
        const int index = item / RUNS, first_pixel = item % RUNS * RUN, slab = first_slab(team) + index;
        if (ALL_SLABS % BLOCK_SLABS != 0 && slab >= ALL_SLABS) return;
        Sums sums = {};
        const WeightsAt weights(block_weights.words, BlockWeights::place_of(index, slab));
        const Windows windows(source, slab, first_pixel);
        multiply(weights, windows, sums);
        const int k = slab * SLAB_K + channel_lane() * LANE_K;
        Channel channels[LANE_K];
        load_channels(args, k, channels);
        finish_pixels(sink, k, first_pixel, sums, channels);
    }
}

// Lanes read shared memory by ordinary loads.
__device__ __forceinline__ void fence_input() {}

@@ 07c5ec7a in whole/fused-small-image-sm_90a.cu: // The shared memory of a block.
@@ 4+1

//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
namespace first {

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=144 OUT_H=56 OUT_W=56 K=24 K_GROUP=24 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=100352 REDUCTION=144 X_SIGNED=true W_SIGNED=true

// The block's weights, in shared memory.
struct BlockWeights {
    SmemWeights& smem;
    const int* words;

@@ d89cf3c7 in whole/fused-small-image-sm_90a.cu:     __device__ __forceinline__ void load(Team& team, const Arguments& args) const {
@@ 3+1
@@ 7+1

    // Maps a slab, the block's `index`-th, to its place in memory.
    static __device__ __forceinline__ int place_of(int index, int) { return index; }
    template <int WORDS>
    static __device__ __forceinline__ tile::Words<WORDS> load_words(const int* from) {
        return tile::load_shared<WORDS>(reinterpret_cast<const unsigned*>(from));
    }
};

// Returns the thread's team; the shuffle tells the compiler that it is warp-uniform.
__device__ __forceinline__ int team() { return __shfl_sync(0xffffffffu, thread() / THREADS, 0); }
// A barrier for the THREADS threads of one team; teams do not wait for each other.
__device__ __forceinline__ void barrier_of_team(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(THREADS) : "memory");
}

// The THREADS threads that compute a tile together. A block has TEAMS teams, which share the weights.
struct Team {
    static constexpr int cluster_block = 0;

    int number;  // in the block
    int first;  // tile; its tiles are GRID_TEAMS apart
    int phase = 0;  // tiles that it computed before this one
    bool is_last = true;  // whether this is its last tile
    Copies copies;

    __device__ __forceinline__ Team() : number(tile::team()), first(tile::block_x() * TEAMS + number) {}

    __device__ __forceinline__ int first_tile() const { return first; }
    static __device__ __forceinline__ int thread() { return tile::thread() % THREADS; }
    static __device__ __forceinline__ int warp() { return tile::warp() % (THREADS / WARP_SIZE); }

@@ 332d0a02 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 7+2
    int* fragments;  // the weights, repacked

// Takes the outputs: a tile of the intermediate tensor in shared memory, where the second convolution
// reads it.
struct Sink : TilePlace {
    using TilePlace::TilePlace;

    // Writes neighbouring channels of a pixel of the tile.
    template <int COUNT>
    __device__ __forceinline__ void put(int pixel, int k, Finished (&finished)[COUNT]) const {
        const int row = pixel / GRID_COLUMNS, column = pixel % GRID_COLUMNS;
        const int place = HAS_BORDER ? place_of(row, column) : pixel;
        constexpr int BYTES = sizeof(Output);
        constexpr int TWOS = COUNT & -COUNT;  // a power of two
        constexpr int STORE_K = TWOS < Y_CHUNK ? TWOS : Y_CHUNK;
#pragma unroll
        for (int i = 0; i < COUNT; i += STORE_K) {
            const int of_block = k + i - first_k;
            if (HAS_K_REMAINDER && !BY_SLICES && of_block >= MID_CHUNKS * Y_CHUNK) continue;
            unsigned char* const to =
                &tensor.byte[of_block / Y_CHUNK][place][of_block % Y_CHUNK * BYTES];
            write_or_pad(
                to, *reinterpret_cast<Finished(*)[STORE_K]>(&finished[i]), is_outside(row, column), padding);
        }
    }
};

// The input: a tile of the image, loaded to shared memory.
using Source = decltype(Activations::input);

__device__ __forceinline__ Source& source_of(Activations& activations, const Tile&) {
    return activations.input;
}

__device__ __forceinline__ const X* address_in_image(const Arguments& args, int at) { return args.x + at; }

// Copies WIDTH bytes of the image, or writes padding.
__device__ __forceinline__ void load_vector(
    Team& team, [[maybe_unused]] const Arguments& args, unsigned char* to, const X* from, int,
    bool is_inside) {
    team.copies.copy<WIDTH>(tile::shared_address(to), from, is_inside);
}

// Loads the pixels that a tile needs, each byte once. A row of them is contiguous in device memory; a thread
// loads the same bytes of each of its rows.
__device__ __forceinline__ void load_input(
    Team& team, const Arguments& args, Activations& activations, const Tile& out_tile) {
    constexpr int BYTES = sizeof(X), PER_PIXEL = (C * BYTES + WIDTH - 1) / WIDTH;
    constexpr int PER_ROW = SOURCE_COLUMNS * PER_PIXEL;
    constexpr int ACROSS = PER_ROW < THREADS ? PER_ROW : THREADS, AT_ONCE = THREADS / ACROSS;
    const int first_row = out_tile.mid_row() * STRIDE_H - PAD_TOP;
    const int first_column = out_tile.mid_column() * STRIDE_W - PAD_LEFT;
    if (THREADS % ACROSS != 0 && team.thread() >= AT_ONCE * ACROSS) return;
#pragma unroll 1
    for (int vector = team.thread() % ACROSS; vector < PER_ROW; vector += ACROSS) {
        const int pixel = vector / PER_PIXEL, byte = vector % PER_PIXEL * WIDTH;
        const int first = team.thread() / ACROSS;
        if (AT_ONCE > SOURCE_ROWS && first >= SOURCE_ROWS) continue;
        const unsigned column = first_column + pixel;
        const int at = (out_tile.n * IN_H + first_row + first) * IN_W + static_cast<int>(column);
        const X* const from = address_in_image(args, at * C + byte / BYTES);
        const int slot = first * Layout::ROW + Layout::column(pixel);
        unsigned char* const to = &activations.input.byte[byte / 16][slot][byte % 16];
#pragma unroll
        for (int i = 0; i < SOURCE_ROWS; i += AT_ONCE) {
            if (SOURCE_ROWS % AT_ONCE != 0 && first + i >= SOURCE_ROWS) continue;
            const bool is_inside = static_cast<unsigned>(first_row + first + i) < IN_H && column < IN_W;
            load_vector(team, args, to + i * (Layout::ROW * 16), from + i * (IN_W * C), byte, is_inside);
        }
    }
}

// Loads the next tile's input: its place in shared memory is free once the first convolution has run.
__device__ __forceinline__ void prefetch_input(
    Team& team, const Arguments& args, Activations& activations, const Tile& out_tile) {
    load_input(team, args, activations, out_tile);
}

// Copies the block's weights to shared memory, all threads together. Team::copies waits for them.
__device__ __forceinline__ void copy_weights(Team& team, const Arguments& args, SmemWeights& smem) {
    constexpr int COUNT = BLOCK_SLABS * SLAB_WORDS;
    const int* const from = args.fragments + first_slab(team) * SLAB_WORDS;
    int* const to = reinterpret_cast<int*>(smem.weights);
#pragma unroll 4
    for (int i = tile::thread() * 4; i < COUNT; i += BLOCK_THREADS * 4) {
        team.copies.copy<16>(tile::shared_address(to + i), from + i, true);
    }
}
__device__ __forceinline__ void await_copies(SmemWeights&) {}

@@ 96484502 in whole/simt-body-sm_90a.cu: using X = signed char;
@@ 5+0
using Residual = signed char;

@@ ebb87e43 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 5+0
    const Residual* residual;  // added before the activation, NHWK
@@ 8+0
    float residual_scale;  // residual_scale / y_scale

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+0
    float residual_scale;

@@ ec798b21 in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const int residual = inputs.residual;
@@ 9+0
    const float added = static_cast<float>(residual);
    value = tile::add(value, tile::multiply(added, channel.residual_scale));

    template <int COUNT>
    struct Residuals { Residual element[COUNT]; };

    // Loads the residuals of neighbouring channels of a pixel.
    template <int COUNT>
    __device__ __forceinline__ Residuals<COUNT> residuals_at(int pixel, int k) const {
        Residuals<COUNT> residuals = {};
        if (!exists(pixel)) return residuals;
        const Residual* const from = args.residual + index_of(pixel, k);
#pragma unroll
        for (int i = 0; i < COUNT; i += VECTOR_K) {
            if (HAS_K_REMAINDER && k + i >= K) continue;
            constexpr int BYTES = VECTOR_K * sizeof(Residual);
            struct alignas(BYTES < 16 ? BYTES : 16) Vector { Residual element[VECTOR_K]; };
            const Vector vector = *reinterpret_cast<const Vector*>(from + i);
#pragma unroll
            for (int j = 0; j < VECTOR_K; ++j) residuals.element[i + j] = vector.element[j];
        }
        return residuals;
    }

@@ 4c92db2c in whole/fused-small-image-sm_90a.cu: // Loads the parameters of a lane's channels.
@@ 16+0
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].residual_scale = args.residual_scale;

@@ 39accc55 in whole/fused-small-image-sm_90a.cu: // Makes output elements of a lane's sums for neighbouring channels of a pixel, and puts them in the sink.
@@ 4+0
    const auto residuals = sink.residuals_at<LANE_K>(pixel, k);
#pragma unroll
    for (int j = 0; j < LANE_K; ++j) inputs[j].residual = residuals.element[j];
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as float32

using X = float;
using W = float;
using Sum = float;
using Output = float;

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale

@@ 2df553df in shared.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+3

@@ 663f93b1 in shared.cu: __device__ __forceinline__ Channel load_channel(
@@ 6+3

@@ ec798b21 in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+0
    value = tile::add(value, channel.bias);

@@ 41653dd5 in whole/simt-body-sm_90a.cu: // Elements of the reduction are packed into 4-byte words; ONES has a 1 in each element of a word.
@@ 6+1
using Bits = unsigned;  // one element
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as float16

__device__ __forceinline__ unsigned half_pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return to_half(low) | static_cast<unsigned>(to_half(high)) << 16;
#endif
}

// The elements of a 32-bit word as floats: two halves.
struct Halves {
    static constexpr int COUNT = 2;
    static __device__ __forceinline__ float of(unsigned word, int i) {
        return half_to_float(static_cast<unsigned short>(word >> (16 * i)));
    }
};

// Converts the elements of a 32-bit word to floats. Where one instruction converts two 8-bit floats, it does.
template <class Word>
__device__ __forceinline__ void unpack(unsigned word, float* elements) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    if constexpr (Word::COUNT == 4) {
        unsigned halves[2];
        if constexpr (Word::MANTISSA == 3) {
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
    } else
#elif defined(__gfx950__) || defined(__GFX12__)
    if constexpr (Word::COUNT == 4) {
        const int four = static_cast<int>(word);
        const auto low = Word::MANTISSA == 3 ? __builtin_amdgcn_cvt_pk_f32_fp8(four, false)
                                       : __builtin_amdgcn_cvt_pk_f32_bf8(four, false);
        const auto high = Word::MANTISSA == 3 ? __builtin_amdgcn_cvt_pk_f32_fp8(four, true)
                                        : __builtin_amdgcn_cvt_pk_f32_bf8(four, true);
        elements[0] = low[0], elements[1] = low[1], elements[2] = high[0], elements[3] = high[1];
    } else
#endif
    {
#pragma unroll
        for (int i = 0; i < Word::COUNT; ++i) elements[i] = Word::of(word, i);
    }
}

// Rounds floats half to even to halves, two to a word.
struct PackedHalves {
    static constexpr int COUNT = 2;
    static __device__ __forceinline__ unsigned short one(float a) { return to_half(a); }
    static __device__ __forceinline__ unsigned word(const float* two) { return half_pair(two[0], two[1]); }
};

using X = unsigned short;
using W = unsigned short;
using Sum = float;
using Output = unsigned short;

// The type that `narrow` converts to an output element.
using Finished = float;
using Narrow = tile::PackedHalves;

using XWord = tile::Halves;
using WWord = tile::Halves;
static_assert(X_SIGNED && W_SIGNED, "floats are signed");

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

// The filters of a thread's channels.
struct Filters { float tap[R][S][VECTOR]; };

// Loads taps. Ordinary loads are left before the barrier behind them, by the compiler; others may move.
template <int WORDS>
__device__ __forceinline__ tile::Words<WORDS> load_taps(const float* from) {
    if constexpr (LOADS_BEFORE_BARRIER) return *reinterpret_cast<const tile::Words<WORDS>*>(from);
    return tile::load_words<WORDS>(from);
}

__device__ __forceinline__ Filters load_filters(const Arguments& args, int k) {
    constexpr int WORDS = VECTOR < 4 ? VECTOR : 4;
    Filters filters;
#pragma unroll
    for (int i = 0; i < R * S * VECTOR; i += WORDS) {
        const int tap = i / VECTOR, first = i % VECTOR;
        const auto words = load_taps<WORDS>(args.taps + tap * VECTORS * VECTOR + k + first);
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

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    int* fragments;  // filters, in the order in which a warp's lanes hold them

// Computes D += A * B, by one warp.
__device__ __forceinline__ void multiply_add(
    const unsigned (&a)[A_REGISTERS], const unsigned (&b)[B_REGISTERS], Sum (&d)[D_REGISTERS]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]),
          "+f"(d[1]),
          "+f"(d[2]),
          "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

@@ 0a63e8d4 in shared.cu: // Rearranges the filters into the B fragments of a warp. Runs once per set of weights, with one thread per
@@ 11+1
    using Bits = unsigned short;
    const auto* const bits = reinterpret_cast<const Bits*>(args.w + k * REDUCTION);
    constexpr int BITS = 8 * sizeof(W);
    for (int i = 0; i < 32 / BITS; ++i) {
@@ 14+2
        word |= static_cast<unsigned>(tile::load(bits + element.at)) << (BITS * i);
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as bfloat16

// Converts float to bfloat16 in integers, rounding half to even. A carry out of the mantissa increments the
// exponent, up to infinity. A NaN stays NaN.
__device__ __forceinline__ unsigned short to_bfloat16(float a) {
    const unsigned bits = as_bits(a);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((bits >> 16) | 0x40u);
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Rounds floats half to even to bfloat16, two to a word. The bits of a NaN are the hardware's.
struct PackedBfloats {
    static constexpr int COUNT = 2;
    static __device__ __forceinline__ unsigned short one(float a) { return to_bfloat16(a); }
    static __device__ __forceinline__ unsigned word(const float* two) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        unsigned pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(two[1]), "f"(two[0]));
        return pair;
#else
        return to_bfloat16(two[0]) | static_cast<unsigned>(to_bfloat16(two[1])) << 16;
#endif
    }
};

// The type that `narrow` converts to an output element.
using Finished = float;
using Narrow = tile::PackedBfloats;

@@ f91549db in shared.cu: // Computes D += A * B, by one warp.
@@ 4+1
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
//
//   acc = sum over r, s, c of x * w, of both the upper 19 bits, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as float32

// Rearranges weights of several bytes into rows of the product. Runs once per set of weights, with one thread
// per word.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    constexpr int PER_WORD = 4 / sizeof(W), ROW_WORDS = REDUCTION / PER_WORD;
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= WEIGHT_ROWS * ROW_WORDS) return;
    const int k = channel_of_row(index / ROW_WORDS);
    const W* const from = args.w + (k * REDUCTION + index % ROW_WORDS * PER_WORD);
    args.weights[index] = k < K ? static_cast<int>(tile::load_words<1>(from).word[0]) : 0;
}

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 5+3
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    int* fragments;  // the weights, repacked

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 9+1
        const auto bias = tile::load_vector<WIDTH>(args.bias + first);
@@ 11+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].bias = bias.element[j];
@@ 15+2

@@ 2f1e2d26 in whole/fused-small-image-sm_90a.cu: // The bits of a weight, as the lowest of a word.
@@ 3+1
    return static_cast<unsigned short>(

@@ ebb87e43 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 5+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 4;  // channels per thread

@@ 56c817e7 in whole/fused-small-image-sm_90a.cu:     __device__ __forceinline__ OutputPatch(const Sink& sink, int row, int column, int k)
@@ 4+1
        const int byte = of_block % Y_CHUNK * sizeof(Output);
        corner = &sink.tensor.byte[of_block / Y_CHUNK][place_of(row, column)][byte];

@@ 066c3495 in whole/fused-small-image-sm_90a.cu: // Writes the filters in that order: once for a set of weights, one thread per word.
@@ 5+10
    const int k = index % (VECTORS * VECTOR), tap = index / (VECTORS * VECTOR);
    using Bits = unsigned short;
    const auto* const element = reinterpret_cast<const Bits*>(args.w + k * R * S + tap);
    args.taps[index] = k < K ? WWord::of(tile::load(element), 0) : 0.0f;

@@ 41f10a81 in whole/fused-small-image-sm_90a.cu:     __device__ __forceinline__ explicit PatchSums([[maybe_unused]] const Channel (&channels)[VECTOR])
@@ 3+5

@@ 229cbd55 in whole/elementwise-quantize-tensor-sm_90a.cu: __device__ __forceinline__ Prepared prepare(
@@ 7+2
    prepared.lowest = tile::add(0.0f, -static_cast<float>(zero_point));
    prepared.highest = tile::add(255.0f, -static_cast<float>(zero_point));

template <class T>
__device__ __forceinline__ void store_vector(T* address, const Vector<T>& vector) {
    *reinterpret_cast<Vector<T>*>(address) = vector;
}
// Returns the first element of this thread's vector in a row; each block has ROWS rows of THREADS vectors.
__device__ __forceinline__ unsigned first_of_row(int row) {
    return ((static_cast<unsigned>(tile::block_x()) * ROWS + row) * THREADS + tile::thread()) * VECTOR;
}

@@ 1ab1b84b in pages/elementwise-dequantize-block-gfx942.hip: __device__ __forceinline__ Prepared prepare(
@@ 4+1
    prepared.divisor = static_cast<float>(scale);

@@ afed56e6 in whole/elementwise-quantize-tensor-sm_90a.cu: // Converts one element. The contract fixes the order and the rounding of the steps.
@@ 4+5
    float value = static_cast<float>(tile::bfloat16_to_float(element));
    value = tile::divide(value, prepared.divisor);
    result = value == value ? tile::PackedE4m3s::one(value)
        : static_cast<Output>(0x7f);

@@ // The config.
THREADS=128 VECTOR=16 UNROLL=1

using X = signed char;
using Output = signed char;

using X = unsigned char;

using X = signed char;

// Returns the value of the lane whose number differs from this lane's in the bits of `mask`.
__device__ __forceinline__ int shuffle_xor(int value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

// NaN if an argument is; of two zeros, the positive one is larger.
__device__ __forceinline__ float larger(float a, float b) {
#if __CUDA_ARCH__ >= 800
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
#else
    return a != a || b != b ? a + b : fmaxf(a, b);
#endif
}
__device__ __forceinline__ float smaller(float a, float b) { return -larger(-a, -b); }

// The scalar functions of expressions. Each operation rounds once; integers wrap around.
namespace scalar {

__device__ __forceinline__ float add(float a, float b) { return tile::add(a, b); }
__device__ __forceinline__ int add(int a, int b) { return tile::wrapping_add(a, b); }
__device__ __forceinline__ long long add(long long a, long long b) {
    return static_cast<long long>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
}

__device__ __forceinline__ float subtract(float a, float b) { return tile::add(a, -b); }
__device__ __forceinline__ int subtract(int a, int b) { return tile::wrapping_subtract(a, b); }
__device__ __forceinline__ long long subtract(long long a, long long b) {
    return static_cast<long long>(static_cast<unsigned long long>(a) - static_cast<unsigned long long>(b));
}

// Integers are rounded toward zero; a division by zero gives zero.
__device__ __forceinline__ float divide(float a, float b) { return tile::divide(a, b); }
__device__ __forceinline__ int divide(int a, int b) {
    return b == 0 ? 0 : b == -1 ? tile::wrapping_subtract(0, a) : a / b;
}
__device__ __forceinline__ long long divide(long long a, long long b) {
    if (b == -1) return static_cast<long long>(0ull - static_cast<unsigned long long>(a));
    return b == 0 ? 0 : a / b;
}

template <class T>
__device__ __forceinline__ T maximum(T a, T b) { return a > b ? a : b; }
__device__ __forceinline__ float maximum(float a, float b) { return tile::larger(a, b); }

// Far from zero a square, because `tile::exponential` is limited to what is neither infinite nor denormal.
__device__ __forceinline__ float exp(float a) {
    if (a != a) return a;
    if (tile::magnitude(a) <= 87.0f) return tile::exponential(a);
    const float half = tile::exponential(tile::multiply(0.5f, a));
    return tile::multiply(half, half);
}

}  // namespace scalar

// An element and its column.
template <class T>
struct Position { T element; int column; };

// A thread's lanes of a fold. Lane (jump * TEAM + member) * SPAN + i of the row is value[jump][i]; where
// vectors lie across rows, lane jump * TEAM + member of row i is.
template <class Fold>
struct Lanes {
    typename Fold::Value value[JUMPS][VECTOR];

    __device__ __forceinline__ Lanes() {
#pragma unroll
        for (int jump = 0; jump < JUMPS; ++jump)
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) value[jump][i] = Fold::begin();
    }

    __device__ __forceinline__ void add(int step, int i, typename Fold::Value element) {
        value[step % JUMPS][i] = Fold::combine(value[step % JUMPS][i], element);
    }

    // Combines the lanes that one thread has of a row and a place in its vectors, the farthest first.
    __device__ __forceinline__ void combine_jumps() {
#pragma unroll
        for (int level = 1; JUMPS >> level > 0; ++level)
#pragma unroll
            for (int jump = 0; jump < JUMPS / 2; ++jump)
#pragma unroll
                for (int i = 0; i < VECTOR; ++i)
                    if (jump < JUMPS >> level)
                        value[jump][i] = Fold::combine(value[jump][i], value[jump + (JUMPS >> level)][i]);
    }
};

// Returns the value of the member at a distance, a power of two.
__device__ __forceinline__ int exchanged(int value, int distance) {
    return tile::shuffle_xor(value, distance);
}
__device__ __forceinline__ float exchanged(float value, int distance) {
    return tile::as_float(exchanged(static_cast<int>(tile::as_bits(value)), distance));
}
__device__ __forceinline__ long long exchanged(long long value, int distance) {
    const unsigned low = exchanged(static_cast<int>(value), distance);
    const unsigned high = exchanged(static_cast<int>(value >> 32), distance);
    return static_cast<long long>(static_cast<unsigned long long>(high) << 32 | low);
}
template <class T>
__device__ __forceinline__ Position<T> exchanged(Position<T> position, int distance) {
    return {exchanged(position.element, distance), exchanged(position.column, distance)};
}

template <class Fold, class Value>
__device__ __forceinline__ Value combine_with_partner(Value mine, Value others, bool is_upper) {
    return Fold::combine(is_upper ? others : mine, is_upper ? mine : others);
}

// Combines the lanes of SHUFFLED neighbours, the farthest first, then those along a vector. While a thread
// has several lanes, each of two partners combines half of them. All get the result, in lanes[0].
template <class Fold, class Value>
__device__ __forceinline__ void combine_neighbours(Value (&lanes)[VECTOR], [[maybe_unused]] int member) {
#pragma unroll
    for (int level = 1; SHUFFLED >> level > 0; ++level) {
        const int distance = SHUFFLED >> level, kept = VECTOR >> level;
        const bool is_upper = (member & distance) != 0;
#pragma unroll
        for (int i = 0; i < (VECTOR + 1) / 2; ++i)
            if (i < kept) {
                const Value sent = is_upper ? lanes[i] : lanes[i + kept];
                const Value mine = is_upper ? lanes[i + kept] : lanes[i];
                lanes[i] = combine_with_partner<Fold>(mine, exchanged(sent, distance), is_upper);
            }
        if (kept == 0)
            lanes[0] = combine_with_partner<Fold>(lanes[0], exchanged(lanes[0], distance), is_upper);
    }
#pragma unroll
    for (int level = 1; SHUFFLED >> level > 0 && VECTOR >> level > 0; ++level) {
        const int distance = SHUFFLED >> level;
#pragma unroll
        for (int i = 0; i < LANES_LEFT; ++i)
            lanes[i] = combine_with_partner<Fold>(
                lanes[i], exchanged(lanes[i], distance), (member & distance) != 0);
    }
#pragma unroll
    for (int level = 1; LANES_LEFT >> level > 0; ++level)
#pragma unroll
        for (int i = 0; i < LANES_LEFT / 2; ++i)
            if (i < LANES_LEFT >> level) lanes[i] = Fold::combine(lanes[i], lanes[i + (LANES_LEFT >> level)]);
}

template <class Fold, class Result>
__device__ __forceinline__ void set_rows(
    Result (&rows)[ROWS_OF_THREAD], const typename Fold::Value (&lanes)[VECTOR]) {
#pragma unroll
    for (int i = 0; i < ROWS_OF_THREAD; ++i) rows[i] = Fold::result(lanes[i]);
}

template <class T>
__device__ __forceinline__ float to_float32(T a) { return static_cast<float>(a); }

// These saturate, and give zero for NaN.
__device__ __forceinline__ int truncated(float a) { return __float2int_rz(a); }
__device__ __forceinline__ int nearest(float a) { return __float2int_rn(a); }  // half to even

__device__ __forceinline__ float sqrt(float a) { return __fsqrt_rn(a); }
__device__ __forceinline__ float floor(float a) { return floorf(a); }
__device__ __forceinline__ float ceil(float a) { return ceilf(a); }
__device__ __forceinline__ float round(float a) { return rintf(a); }  // half to even

template <class T>
__device__ __forceinline__ T minimum(T a, T b) { return a < b ? a : b; }
__device__ __forceinline__ float minimum(float a, float b) { return tile::smaller(a, b); }

// A float saturates; NaN gives zero.
__device__ __forceinline__ int to_int32(float a) { return tile::truncated(a); }
__device__ __forceinline__ int nearest(float a) { return tile::nearest(a); }
template <class T>
__device__ __forceinline__ int to_int32(T a) { return static_cast<int>(a); }

// Calls `take(i, at, part)` for the thread's parts of a slab: number i is of row or column `at`.
template <class Side, class Take>
__device__ __forceinline__ void for_each_part(Take take) {
    constexpr int COUNT = Side::TILE * PARTS;
#pragma unroll
    for (int i = 0; i < (COUNT + THREADS - 1) / THREADS; ++i) {
        const int number = i * THREADS + tile::thread();
        if (COUNT % THREADS != 0 && number >= COUNT) continue;
        if constexpr (Side::ALONG_K) take(i, number / PARTS, number % PARTS);
        else take(i, number % Side::TILE, number / Side::TILE);
    }
}

// The block's tile: its batch, its first row and its first column.
struct Place {
    int batch, row, column;

    __device__ __forceinline__ Place()
        : batch(tile::block_x() / (TILES_M * TILES_N)),
          row(tile::block_x() / TILES_N % TILES_M * TILE_M),
          column(tile::block_x() % TILES_N * TILE_N) {}
};

// Calls `body(slab, buffer)` for every slab. While it multiplies one, the next one is fetched.
template <class Slabs, class Body>
__device__ __forceinline__ void for_each_slab(
    const Arguments& args, Slabs& shared, const Place& place, const Body& body) {
    Fetched<Left> left;
    Fetched<Right> right;
    fetch(left, args, place.batch, place.row, 0);
    fetch(right, args, place.batch, place.column, 0);
    for (int slab = 0; slab < SLABS; ++slab) {
        const int buffer = slab % BUFFERS;
        stage(shared.left[buffer], left);
        stage(shared.right[buffer], right);
        tile::barrier();
        if (slab + 1 < SLABS) {
            fetch(left, args, place.batch, place.row, (slab + 1) * SLAB);
            fetch(right, args, place.batch, place.column, (slab + 1) * SLAB);
        }
        body(slab, buffer);
    }
}

// Values that all outputs have in common.
struct Common {  };
__device__ __forceinline__ Common common_of([[maybe_unused]] const Arguments& args) {
    Common common;
    
    return common;
}

using X0 = unsigned char;
using X1 = signed char;
using X2 = unsigned char;
using X3 = int;
using X4 = float;
using Output = signed char;

// Returns the offset of the 16-byte chunk `chunk` of row `row + low` in a factor's slab; `row` is a multiple
// of 8. The chunks of neighbouring rows are permuted, so that eight rows of one chunk cover all banks.
constexpr int CHUNKS = TILE_K / 16, PARTS = CHUNKS;  // a thread computes a chunk at a time
__device__ __forceinline__ int swizzled_offset(int row, int low, int chunk) {
    return (row + low) * TILE_K + (chunk ^ (low / (CHUNKS < 8 ? 8 / CHUNKS : 1) % CHUNKS)) * 16;
}

    // Returns eight terms of a row in fp16, from number `first` on; behind the last of WIDTH, terms are 0.
    static __device__ __forceinline__ tile::Words<4> chunk(
        const Arguments& args, int batch, int at, int first) {
        Sum term[8];
#pragma unroll
        for (int part = 0; part < 8; part += VECTOR) {
            const bool is_behind = WIDTH % SLAB != 0 && first + part >= WIDTH;
            Sum some[VECTOR];
            terms(args, batch, at, is_behind ? 0 : first + part, some);
#pragma unroll
            for (int lane = 0; lane < VECTOR; ++lane) term[part + lane] = is_behind ? 0.0f : some[lane];
        }
        tile::Words<4> pairs;
#pragma unroll
        for (int i = 0; i < 4; ++i) pairs.word[i] = tile::half_pair(term[2 * i], term[2 * i + 1]);
        return pairs;
    }
