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
constexpr int ATOMS = 4;  // of channels, of a warp
constexpr int BATCH = 2;  // atoms of pixels that it has at a time

@@ f5f46790 in whole/fused-small-image-sm_90a.cu: static_assert(REDUCTION == R * S * C_GROUP && C % C_GROUP == 0 && K % K_GROUP == 0,
@@ 10+0
static_assert(TAPS == R * S && UNITS == TAPS * CHUNKS && ALL_CHUNKS * 16 >= C,
              "chunks must cover the reduction of a slab");

// Neighbouring output elements, or padding in their place. A word of padding costs less than four elements.
template <int COUNT>
__device__ __forceinline__ void write_or_pad(
    Output* to, Finished (&finished)[COUNT], bool is_padding, unsigned padding) {
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

@@ 8d9857d6 in whole/fused-small-image-sm_90a.cu: // What takes the outputs: a tile of pixels in shared memory, as the second convolution reads it.
@@ 5+0
    int row, column;  // of the tile's first pixel in the image
    unsigned padding;  // four bytes of it

    __device__ __forceinline__ Sink(Intermediate& tensor, const Tile& out_tile, unsigned padding)
        : tensor(tensor),
          row(out_tile.mid_row()),
          column(out_tile.mid_column()),
          padding(padding) {}

@@ c1764b8c in pages/fused-warpgroups-sm_90a.cu:     // Neighbouring channels of a pixel of the tile.
@@ 4+0
        const unsigned in_row = row + pixel / GRID_COLUMNS, in_column = column + pixel % GRID_COLUMNS;
        const bool is_padding = in_row >= OUT_H || in_column >= OUT_W;
@@ 9+1
            auto& some = *reinterpret_cast<Finished(*)[STORE_K]>(&finished[i]);
            write_or_pad(reinterpret_cast<Output*>(to), some, is_padding, padding);

@@ // What follows.
WORDS=1 VECTORS=36 SOURCE_ROWS=10 SOURCE_COLUMNS=16 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=false

@@ 774ef282 in whole/fused-small-image-sm_90a.cu: static_assert(REDUCTION == R * S * C_GROUP && C % C_GROUP == 0 && K % K_GROUP == 0,
@@ 10+2

@@ 5d9225cc in whole/depthwise-rows-sm_90a.cu: __device__ __forceinline__ Filters load_filters(const Arguments& args, int k) {
@@ 10+1
                // An ordinary load: the compiler leaves it before the barrier.
                const auto words = *reinterpret_cast<const tile::Words<4>*>(args.taps + index);

// Input rows of a thread's outputs.
constexpr int HEIGHT = (ROWS - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
// Where a thread's input pixels begin in shared memory. Each is read once for all its outputs.
struct InputPatch {
    int first_row, first_column;
    const unsigned char* corner;

    __device__ __forceinline__ InputPatch(const Arguments&, const Source& source, int row, int column, int k)
        : first_row(row * STRIDE_H), first_column(column * STRIDE_W),
          corner(&source.byte[k / 16][first_row * SOURCE_COLUMNS + first_column][k % 16]) {}

@@ 6c80299c in whole/fused-small-image-sm_90a.cu:     __device__ __forceinline__ Row row(int down) const {
@@ 3+1
        const bool is_inside = GRID_ROWS % ROWS == 0 || first_row + down < SOURCE_ROWS;
@@ 7+3
            for (unsigned& quad : result.pixel[i].quad) quad = 0u;  // what is beyond the tile is not written
            if (!is_inside || (GRID_COLUMNS % COLUMNS != 0 && first_column + i >= SOURCE_COLUMNS)) continue;
            const auto words = tile::load_shared<QUADS>(
                reinterpret_cast<const unsigned*>(corner + (down * SOURCE_COLUMNS + i) * 16));

@@ a27b6041 in whole/fused-small-image-sm_90a.cu: // A thread goes down its input rows. Each serves all outputs that look at it; an output row is finished when
@@ 4+1
    const InputPatch& from,

// What a thread needs of its channels. It asks for that of the first before it waits for their pixels.
struct OwnChannels {
    int k;
    Filters filters;
    Channel channels[VECTOR];

    __device__ __forceinline__ OwnChannels(const Arguments& args, int k)
        : k(k), filters(load_filters(args, existing(k))) {
        load_channels(args, existing(k), channels);
    }

    // A thread that has none loads others.
    static __device__ __forceinline__ int existing(int k) { return k < K ? k : 0; }
};

// The outputs of a tile's pixels. A thread keeps its channels while it goes from patch to patch.
__device__ __forceinline__ void run(
    const Team& team, const Arguments& args, OwnChannels own, const Source& source, const Sink& sink) {
    if (THREADS % ACROSS != 0 && team.thread() >= AT_ONCE * ACROSS) return;
    if (own.k >= end_k(team)) return;
#pragma unroll 1
    for (;;) {
#pragma unroll 1
        for (int patch = team.thread() / ACROSS; patch < ALL_PATCHES; patch += AT_ONCE) {
            const int row = patch / PATCHES_W * ROWS, column = patch % PATCHES_W * COLUMNS;
            const InputPatch from(args, source, row, column, own.k);
            run_down(from, OutputPatch(sink, row, column, own.k), own.filters, own.channels);
        }
        const int next = own.k + ACROSS * VECTOR;
        if (next >= end_k(team)) break;
        own = OwnChannels(args, next);
    }
}

__device__ __forceinline__ float divide(float a, float b) { return a / b; }

@@ // The config.
THREADS=128 VECTOR=8 UNROLL=1

using X = signed char;
