//
//   acc = sum over r, s, c of (x - x_zero) * (w - w_zero[k]), in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8

// Returns rounded(a) + more, for an integer `more` below 2^16, without an extra addition: the constant
// subtracted is smaller by `more`.
__device__ __forceinline__ float rounded(float a, float more) {
    return __fadd_rn(__fadd_rn(a, 12582912.0f), more - 12582912.0f);
}

@@ 3088b1e8 in whole/mma-16x16x32-staged-gfx942.hip: // Rounds two numbers half to even, clamps them, and packs them into the lower bytes of a word whose upper two
@@ 2+2
// bytes are the lower two of `above`.
@@ 8+3
    const unsigned first = static_cast<unsigned>(round_small(clamp(a, LOW, HIGH))) & 0xffu;
    const unsigned second = static_cast<unsigned>(round_small(clamp(b, LOW, HIGH))) & 0xffu;
    return first | second << 8 | above << 16;

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

@@ 2e20f311 in whole/fused-small-image-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 4+0
    int w_zero;
@@ 6+0
    float y_zero;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+0
    channel.w_zero = tile::load(args.w_zero + k);
@@ 6+0
    channel.top = args.top;
    channel.y_zero = args.y_zero;

@@ 31caf171 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters.
@@ 4+0
    Sum x_sum;  // sum of the inputs in the element's window

@@ d194d69e in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 5+0
    const Sum x_sum = inputs.x_sum;
@@ 7+0
    acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);
@@ 9+2
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

@@ a766e225 in whole/simt-body-sm_90a.cu: // Rounds half to even and clamps to the range of Output.
@@ 3+1
    constexpr float LEAST = 0.0f, LARGEST = 255.0f;

// The contribution of x_zero_point to every pixel of channel k. Padding is stored as x_zero, so it is
// constant:
//   offset[k] = -x_zero * sum(w[k])
//               + count * x_zero * w_zero
//               + bias[k]
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

@@ cb296cf8 in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 3+1

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 4+2
    channel.multiplier = args.multiplier;

@@ 3860cb7a in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+1

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

@@ cb296cf8 in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 4+0
    float bias;

@@ 321e032e in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Channel load_channel(
@@ 5+1
    channel.bias = tile::load(args.bias + k);
    channel.multiplier = args.multiplier;

using Finished = Output;

@@ d194d69e in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+0
    value = tile::add(value, channel.bias);
@@ 10+1
    result = tile::to_half(value);

__device__ __forceinline__ Output narrow(Finished finished) { return finished; }

@@ cd3dfecd in whole/simt-body-sm_90a.cu: // Stores COUNT neighbouring output elements. The address must be aligned to the largest power of two that
@@ 5+14

@@ 2322dc22 in shared.cu: // The contribution of x_zero_point to every pixel of channel k. Padding is stored as x_zero, so it is
@@ 4+2

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 15+3

@@ 6ff8f755 in whole/simt-body-sm_90a.cu: // Each operation rounds once, whatever the compiler's flags.
@@ 6+0
__device__ __forceinline__ float magnitude(float a) { return fabsf(a); }

__device__ __forceinline__ unsigned as_bits(float a) { return __float_as_uint(a); }
__device__ __forceinline__ float as_float(unsigned bits) { return __uint_as_float(bits); }

// Activations, composed of correctly rounded operations only, so that every device returns the same bits.

// Flushes denormals to zero, whether or not the hardware does, and the binade above them too: some hardware
// flushes results that would round up to the least normal number.
__device__ __forceinline__ float flush(float a) {
    return magnitude(a) < 0x1p-125f ? multiply(a, 0.0f) : a;
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

@@ c17642dd in pages/simt-body-et-vulkan-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 3+0
    int offset;
@@ 5+0
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

@@ 31caf171 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters.
@@ 4+0
    int residual;

@@ d194d69e in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 5+0
    const int residual = inputs.residual;
@@ 8+1
    value = tile::add(tile::multiply(value, channel.scale), channel.bias);
    const float added = static_cast<float>(residual - channel.residual_zero);
    value = tile::fma(added, channel.residual_scale, value);
@@ 10+0
    value = tile::multiply(value, channel.inverse);
    value = tile::add(value, channel.y_zero);

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

@@ 1b181527 in whole/fused-small-image-sm_90a.cu: // The channel parameters of neighbouring channels. Those past the last channel repeat others that exist.
@@ 17+1

@@ 1b181527 in whole/fused-small-image-sm_90a.cu: // The channel parameters of neighbouring channels. Those past the last channel repeat others that exist.
@@ 11+2
        const auto scale =
            tile::load_vector<WIDTH>(args.scale + first);
        const auto bias =
            tile::load_vector<WIDTH>(args.bias + first);
@@ 16+2
            channels[i + j].scale = scale.element[j];
            channels[i + j].bias = bias.element[j];
            channels[i + j].residual_scale = args.residual_scale;
            channels[i + j].residual_zero = args.residual_zero;
            channels[i + j].inverse = args.inverse;
            channels[i + j].y_zero = args.y_zero;

@@ 2322dc22 in shared.cu: // The contribution of x_zero_point to every pixel of channel k. Padding is stored as x_zero, so it is
@@ 4+1

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 15+2

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

@@ 31caf171 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters.
@@ 4+0
    float residual;

@@ d194d69e in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 5+0
    const float residual = inputs.residual;
@@ 8+1
    value = tile::add(tile::multiply(value, channel.scale), channel.bias);
    const float added = static_cast<float>(residual - channel.residual_zero);
    value = tile::fma(added, channel.residual_scale, value);
@@ 10+0
    value = tile::multiply(value, channel.inverse);
    value = tile::add(value, channel.y_zero);

// TMA pads with zeros, but a real zero is x_zero: the contribution of x_zero to an output depends on which of
// its taps are inside the image. All rows whose windows are inside form one class, and every other row is its
// own class; likewise for columns.
template <int BEFORE, int BEHIND, int SIZE>
struct Borders {
    // Returns the class of a row or a column.
    static __device__ __forceinline__ int class_of(int place) {
        const int behind_last = place - (SIZE - BEHIND);
        return place < BEFORE ? place : behind_last < 0 ? BEFORE : BEFORE + 1 + behind_last;
    }
    // Returns a row or a column of a class.
    static __device__ __forceinline__ int place_of(int number) {
        return number <= BEFORE ? number : number - BEFORE - 1 + SIZE - BEHIND;
    }
};
using Rows = Borders<ROWS_BEFORE, ROWS_BEHIND, OUT_H>;
using Columns = Borders<COLUMNS_BEFORE, COLUMNS_BEHIND, OUT_W>;

// Returns the class of a pixel, or -1 if all of its taps are inside the image.
__device__ __forceinline__ int border_of(int pixel) {
    const int row = pixel / OUT_W % OUT_H, column = pixel % OUT_W;
    const bool inside = row >= ROWS_BEFORE && row < OUT_H - ROWS_BEHIND && column >= COLUMNS_BEFORE &&
                        column < OUT_W - COLUMNS_BEHIND;
    return inside ? -1 : Rows::class_of(row) * COLUMN_CLASSES + Columns::class_of(column);
}

// Returns the parameters of channel `k` for a pixel of class `border`.
__device__ __forceinline__ Channel with_offset_of(
    const Arguments& args, const Channel& inner, int border, int k) {
    Channel channel = inner;
    if (border >= 0) channel.offset = tile::load(args.borders + border * K + (k < K ? k : K - 1));
    return channel;
}

// Computes what conv2d_fold computes for inner pixels, for every class of border pixels. Runs once per set of
// weights, with one thread per class and channel.
extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold_borders(const Arguments args) {
    const int index = tile::block_x() * FOLD_THREADS + tile::thread();
    if (index >= ROW_CLASSES * COLUMN_CLASSES * K) return;
    const int k = index % K, number = index / K;
    const int first_row = Rows::place_of(number / COLUMN_CLASSES) * STRIDE_H - PAD_TOP;
    const int first_column = Columns::place_of(number % COLUMN_CLASSES) * STRIDE_W - PAD_LEFT;
    Sum sum = 0;
    for (int tap = 0; tap < R * S; ++tap) {
        const int row = first_row + tap / S * DILATION_H, column = first_column + tap % S * DILATION_W;
        if (row < 0 || row >= IN_H || column < 0 || column >= IN_W) continue;
        for (int c = 0; c < C; ++c) sum += tile::load(args.w + (k * REDUCTION + tap * C + c));
    }
    args.borders[index] = -args.x_zero * sum;
}

// Whether every channel of every tile exists.
constexpr bool WHOLE_TILES = K % TILE_M == 0;

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

// Counts the bytes that the blocks of the cluster send to this one. The senders do not wait.
struct Mbarrier {
    unsigned long long state;

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=1 OUT_H=56 OUT_W=56 K=144 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=100352 REDUCTION=9 X_SIGNED=true W_SIGNED=true

// How the columns of an input row lie in shared memory: one behind the other.
struct Linear {
    static constexpr int ROW = SOURCE_COLUMNS;  // from a row to the next
    static constexpr int STEP = STRIDE_W;  // from an output's first column to the next output's

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

// A warp has SLAB_K output channels of BATCH atoms of pixels at a time; a lane ends up with LANE_K neighbours
// of each of its pixels. The reduction of a slab is UNITS chunks of 16 bytes: those of its groups' channels,
// tap after tap.
constexpr int LANE_K = ATOMS * LANE_CHANNELS, RUN = BATCH * ATOM_M, RUNS = (GRID_PIXELS + RUN - 1) / RUN;
static_assert(SLAB_K == ATOMS * ATOM_N, "SLAB_K must be ATOMS * ATOM_N");
static_assert(STEPS * STEP_CHUNKS >= UNITS, "STEPS must cover the reduction");

__device__ __forceinline__ int channel_of(int slab, int atom, int row) {
    return slab * SLAB_K + lane_of_channel(row) * LANE_K + atom * LANE_CHANNELS + index_of_channel(row);
}

// The first chunk of input channels that a slab looks at.
constexpr __device__ int first_chunk_of([[maybe_unused]] int slab) {
    return 0;
}

// The weights as lanes hold them: for each slab and step W_GROUPS times so many words of every lane.
constexpr int LANE_WORDS = ATOMS * W_WORDS, TWOS = LANE_WORDS & -LANE_WORDS;  // a power of two
constexpr int GROUP_WORDS = TWOS < 4 ? TWOS : 4, W_GROUPS = LANE_WORDS / GROUP_WORDS;
constexpr int SET_WORDS = LANE_WORDS * WARP_SIZE;
constexpr int STEP_WORDS = SET_WORDS;
constexpr int SLAB_WORDS = STEPS * STEP_WORDS;
struct Weights {
    WFragment atom[ATOMS];
};

// The weights of a slab, step after step. An index and not a pointer that moves on: of a loop with many sums
// ptxas 13.0 makes one that reads through such a pointer before it is set.
struct WeightsAt {
    const int* words;
    unsigned index;

    __device__ __forceinline__ WeightsAt(const int* words, int slab)
        : words(words), index(slab * SLAB_WORDS + tile::lane() * GROUP_WORDS) {}

    __device__ __forceinline__ Weights load() {
        Weights weights;
        load_fragments(words + index, weights.atom);
        index += STEP_WORDS;
        return weights;
    }
};

// The weights in that order. Once for a set of weights, a thread for each word.
__device__ __forceinline__ void repack_weights(const Arguments& args) {
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= ALL_SLABS * STEPS * SET_WORDS) return;
    const int lane = index / GROUP_WORDS % WARP_SIZE, group = index / (GROUP_WORDS * WARP_SIZE) % W_GROUPS;
    const int word = group * GROUP_WORDS + index % GROUP_WORDS;
    const int step = index / SET_WORDS % STEPS, slab = index / (SET_WORDS * STEPS);
    const int k = channel_of(slab, word / W_WORDS, row_of_lane(lane));
    const int unit = step * STEP_CHUNKS + chunk_of_word(lane, word % W_WORDS);
    const int first = (first_chunk_of(slab) + unit % CHUNKS) * 16 + byte_of_word(lane, word % W_WORDS);
    unsigned bytes = 0;
    for (int i = 0; i < 4; ++i) {
        const int c = first + i - k / K_GROUP * C_GROUP;  // in the channel's group
        if (k >= K || unit >= UNITS || c < 0 || c >= C_GROUP) continue;
        const W weight = tile::load(args.w + k * REDUCTION + unit / CHUNKS * C_GROUP + c);
        bytes |= static_cast<unsigned>(static_cast<unsigned char>(weight)) << (8 * i);
    }
    args.fragments[index] = static_cast<int>(bytes);
}

struct Sums {
    Sum product[BATCH][ATOMS][D_REGISTERS];
};

// How far a unit's bytes lie behind those of the first.
constexpr __device__ int offset_of(int unit) {
    const int tap = TAPS > 1 ? unit / CHUNKS : 0, chunk = TAPS > 1 ? unit % CHUNKS : unit;
    if (UNITS % STEP_CHUNKS != 0 && unit >= UNITS) return 0;
    const int row = tap / S * DILATION_H, column = Layout::column(tap % S * DILATION_W);
    return (chunk * SOURCE_PLANE + row * Layout::ROW + column) * 16;
}

// Where the windows begin that a lane names: of one pixel of each atom.
struct Windows {
    Address first[BATCH];

// One step of all products: so far behind the windows' first bytes.
__device__ __forceinline__ void multiply_step(
    const Windows& windows, int offset, const Weights& weights, Sums& sums) {
    XFragment x[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) x[n] = load_pixels(windows.first[n] + offset);
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
#pragma unroll
        for (int j = 0; j < ATOMS; ++j) {
            multiply_add(x[n], weights.atom[j], sums.product[n][j]);
        }
    }
}

__device__ __forceinline__ void finish_pixels(
    const Sink& sink, int slab, int first_pixel, const Sums& sums, const Channel (&channels)[LANE_K]) {
    const int k = slab * SLAB_K + channel_lane() * LANE_K;
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
#pragma unroll
        for (int i = 0; i < LANE_PIXELS; ++i) {
            const int pixel = first_pixel + n * ATOM_M + pixel_of_lane(i);
            if (GRID_PIXELS % RUN != 0 && pixel >= GRID_PIXELS) continue;
            Finished finished[LANE_K];
#pragma unroll
            for (int j = 0; j < LANE_K; ++j) {
                const int atom = j / LANE_CHANNELS, d = register_of(i, j % LANE_CHANNELS);
                Inputs inputs = {sums.product[n][atom][d]};
                finished[j] = finish(inputs, channels[j]);
            }
            sink.put(pixel, k, finished);
        }
    }
}

//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(relu((acc + bias[k]) * multiplier[k]))) as int8
namespace first {

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=144 OUT_H=56 OUT_W=56 K=24 K_GROUP=24 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=100352 REDUCTION=144 X_SIGNED=true W_SIGNED=true

@@ 897bb2f9 in pages/fused-depthwise-pointwise-sm_90a.cu: __device__ __forceinline__ void load_fragments(const int* words, WFragment (&atoms)[ATOMS]) {
@@ 4+1
        const auto loaded = tile::load_shared<GROUP_WORDS>(
            reinterpret_cast<const unsigned*>(words + group * (GROUP_WORDS * WARP_SIZE)));

@@ 60419c9a in pages/fused-depthwise-pointwise-sm_90a.cu: // The outputs of a tile's pixels: the warps take slabs and runs of pixels in turn.
@@ 3+1
    const Team& team, const Arguments& args, const SmemWeights& smem, Source& source, const Sink& sink) {
@@ 9+1
        multiply(WeightsAt(smem.weights, index), source, slab, first_pixel, sums);

// Returns the thread's team; the shuffle tells the compiler that it is warp-uniform.
__device__ __forceinline__ int team() { return __shfl_sync(0xffffffffu, thread() / THREADS, 0); }
// A barrier for the THREADS threads of one team; teams do not wait for each other.
__device__ __forceinline__ void barrier_of_team(int team) {
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(THREADS) : "memory");
}

// The THREADS threads of a block that have a tile together.
struct Team {
    int number;  // in the block
    int first;  // of its tiles, which are GRID_TEAMS apart
    tile::Copies copies;

@@ 41982626 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 7+2
    int* fragments;  // the weights as the lanes read them

// What holds the inputs.
using Source = Input;

// A few bytes of the image, or padding.
__device__ __forceinline__ void load_vector(
    [[maybe_unused]] Team& team, [[maybe_unused]] const Arguments& args, unsigned char* to, const X* from,
    [[maybe_unused]] int c, bool is_inside) {
    team.copies.copy<WIDTH>(tile::shared_address(to), from, is_inside);
}

// What a tile looks at comes to shared memory: each byte once. A row of it is contiguous in device memory; a
// thread loads the same bytes of every row that it has.
__device__ __forceinline__ void load_input(
    Team& team, const Arguments& args, Input& input, const Tile& out_tile) {
    constexpr int PER_PIXEL = (C + WIDTH - 1) / WIDTH, PER_ROW = SOURCE_COLUMNS * PER_PIXEL;
    constexpr int ACROSS = PER_ROW < THREADS ? PER_ROW : THREADS, AT_ONCE = THREADS / ACROSS;
    const int first_row = out_tile.mid_row() * STRIDE_H - PAD_TOP;
    const int first_column = out_tile.mid_column() * STRIDE_W - PAD_LEFT;
    if (THREADS % ACROSS != 0 && team.thread() >= AT_ONCE * ACROSS) return;
#pragma unroll 1
    for (int vector = team.thread() % ACROSS; vector < PER_ROW; vector += ACROSS) {
        const int pixel = vector / PER_PIXEL, c = vector % PER_PIXEL * WIDTH;
        const int first = team.thread() / ACROSS;
        if (AT_ONCE > SOURCE_ROWS && first >= SOURCE_ROWS) continue;
        const unsigned column = first_column + pixel;
        const int at = (out_tile.n * IN_H + first_row + first) * IN_W + static_cast<int>(column);
        const X* const from = args.x + (at * C + c);
        const int slot = first * Layout::ROW + Layout::column(pixel);
        unsigned char* const to = &input.byte[c / 16][slot][c % 16];
#pragma unroll
        for (int i = 0; i < SOURCE_ROWS; i += AT_ONCE) {
            if (SOURCE_ROWS % AT_ONCE != 0 && first + i >= SOURCE_ROWS) continue;
            const bool is_inside = static_cast<unsigned>(first_row + first + i) < IN_H && column < IN_W;
            load_vector(team, args, to + i * (Layout::ROW * 16), from + i * (IN_W * C), c, is_inside);
        }
    }
}

@@ 96484502 in whole/simt-body-sm_90a.cu: using X = signed char;
@@ 5+0
using Residual = signed char;

@@ cedd3757 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 5+0
    const Residual* residual;  // added before the activation, NHWK
@@ 8+0
    float residual_scale;  // residual_scale / y_scale

@@ cb296cf8 in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 5+0
    float residual_scale;

@@ 4317db6a in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 5+0
    const int residual = inputs.residual;
@@ 8+0
    const float added = static_cast<float>(residual);
    value = tile::add(value, tile::multiply(added, channel.residual_scale));

    template <int COUNT>
    struct Residuals { Residual element[COUNT]; };

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

@@ c366ad82 in whole/fused-small-image-sm_90a.cu: // Copies the block's weights, and its channel parameters, to shared memory: asks for them, and does not wait.
@@ 7+1
    for (int i = tile::thread(); i < BLOCK_SLABS * SLAB_K; i += BLOCK_THREADS) {

@@ 59669e02 in whole/fused-small-image-sm_90a.cu: // The channel parameters of a lane's channels.
@@ 16+0
            channels[i + j].residual_scale = args.residual_scale;

@@ f0c27e89 in whole/fused-small-image-sm_90a.cu: // Finishes the outputs of the pixels that exist.
@@ 10+0
        const auto residuals = sink.template residuals_at<LANE_K>(pixel, k);
@@ 14+0
            inputs.residual = residuals.element[j];

@@ 229cbd55 in whole/elementwise-quantize-tensor-sm_90a.cu: __device__ __forceinline__ Prepared prepare(
@@ 7+2
    prepared.lowest = tile::add(0.0f, -static_cast<float>(zero_point));
    prepared.highest = tile::add(255.0f, -static_cast<float>(zero_point));

// Returns the first element of this thread's vector in a row; each block has ROWS rows of THREADS vectors.
__device__ __forceinline__ unsigned first_of_row(int row) {
    return ((static_cast<unsigned>(tile::block_x()) * ROWS + row) * THREADS + tile::thread()) * VECTOR;
}

@@ // The config.
THREADS=128 VECTOR=16 UNROLL=1

using X = signed char;
using Output = signed char;

using X = unsigned char;
