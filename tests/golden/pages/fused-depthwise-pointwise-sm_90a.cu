// conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=int8:w_type=int8:out_type=uint8:
//     per_channel:y_zero_point:bias=int32:activation=relu6+conv2d:n=32:h=56:w=56:c=144:k=24:r=1:s=1:
//     x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:y_zero_point:bias=int32:
//     activation=relu6
//
//   y = second(first(x, w1), w2); uint8 between the two, in shared memory; the math of each is with it
//
// target    sm_90a
// config    fused tile_h=8 tile_w=14 warps=4 blocks_per_sm=2 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=0 first_m=2 first_n=2 second_m=2 second_n=2
// launch    first_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    second_fold<<<24x1x1, 128, 512 B>>> when: prepare
// launch    second_repack_weights<<<11x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<264x1x1, 128, 16272 B>>> when: call

@@ // The config.
constexpr int TILE_H = 8;  // output rows of a block
TILE_W=14 BLOCKS_PER_SM=2

@@ // What follows.
WARP_SIZE=32 THREADS=128 TILES_H=7 TILES_W=4 TILES=896 GRID_TEAMS=264 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=0 MID_PAD_LEFT=0 MID_CHUNKS=9 MID_PLANE=113 SMEM_BYTES=16272

// Returns true if `said` is true in all active lanes, so that a warp takes one branch instead of both in
// turn.
__device__ __forceinline__ bool warp_uniform(bool said) { return __all_sync(__activemask(), said); }

// The threads that have a tile together: all of a block.
struct Team {

@@ d70b5af2 in whole/fused-small-image-sm_90a.cu:     // The first of its tiles, which are GRID_TEAMS apart.
@@ 5+1
    static __device__ __forceinline__ int warp() { return tile::warp(); }

//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8
namespace first {

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 8;  // channels of a thread
constexpr int RUN = 2;  // neighbouring outputs that share the words of the first

@@ // What follows.
WORDS=1 VECTORS=18 SOURCE_ROWS=10 SOURCE_COLUMNS=16 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=false

@@ 41982626 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 9+0
    float y_zero;  // the output zero point

@@ 2e20f311 in whole/fused-small-image-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 6+0
    float y_zero;

@@ 3860cb7a in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+2
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

@@ 1b181527 in whole/fused-small-image-sm_90a.cu: // The channel parameters of neighbouring channels. Those past the last channel repeat others that exist.
@@ 18+0
            channels[i + j].y_zero = args.y_zero;

    // Whether all of them are in the image. Most are, and nothing of theirs is looked at one by one.
    __device__ __forceinline__ bool is_inside() const {
        return first_row >= 0 && first_row <= IN_H - HEIGHT &&
               first_column >= 0 && first_column <= IN_W - SPAN;
    }

    template <bool INSIDE>
    __device__ __forceinline__ Row row(int down) const {
        Row result;
        const bool is_row = INSIDE || static_cast<unsigned>(first_row + down) < IN_H;
#pragma unroll
        for (int i = 0; i < SPAN; ++i) {
#pragma unroll
            for (unsigned& quad : result.pixel[i].quad) quad = padding;
            if (!is_row || (!INSIDE && static_cast<unsigned>(first_column + i) >= IN_W)) continue;
            const auto words = tile::load_words<QUADS>(corner + (down * IN_W + i) * C);
#pragma unroll
            for (int j = 0; j < QUADS; ++j) result.pixel[i].quad[j] = words.word[j];
        }
        return result;
    }
};

@@ a27b6041 in whole/fused-small-image-sm_90a.cu: // A thread goes down its input rows. Each serves all outputs that look at it; an output row is finished when
@@ 3+0
template <bool INSIDE>
@@ 4+1
    const InputPatch& from,
@@ 17+1
        const Row row = from.template row<INSIDE>(i);

@@ 2a181d5c in whole/fused-small-image-sm_90a.cu: // The outputs of a tile's pixels. A thread keeps its channels while it goes from patch to patch.
@@ 7+4
@@ 15+7
        for (int patch = team.thread() / ACROSS; patch < ALL_PATCHES; patch += AT_ONCE) {
            const int row = patch / PATCHES_W * ROWS, column = patch % PATCHES_W * COLUMNS;
            const InputPatch from(args, source, row, column, k);
            const OutputPatch to(sink, row, column, k);
            if (tile::warp_uniform(from.is_inside())) {
                run_down<true>(from, to, filters, channels);
            }
            else run_down<false>(from, to, filters, channels);

//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8
namespace second {

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=144 OUT_H=56 OUT_W=56 K=24 K_GROUP=24 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=100352 REDUCTION=144 X_SIGNED=false W_SIGNED=true

@@ // The config.
constexpr int ATOMS = 2;  // of channels, of a warp
constexpr int BATCH = 2;  // atoms of pixels that it has at a time

@@ // What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 16;  // output channels of a warp
ALL_SLABS=2 BLOCK_SLABS=2 TAPS=1
constexpr int CHUNKS = 9;  // of 16 input channels that a slab looks at
ALL_CHUNKS=9
constexpr int UNITS = 9;  // chunks of a slab's reduction
STEP_CHUNKS=2
constexpr int STEPS = 5;  // along the reduction
SOURCE_ROWS=8 SOURCE_COLUMNS=14 SOURCE_PLANE=113 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=true VECTOR_K=4 FOLD_THREADS=128

@@ 774ef282 in whole/fused-small-image-sm_90a.cu: static_assert(REDUCTION == R * S * C_GROUP && C % C_GROUP == 0 && K % K_GROUP == 0,
@@ 10+1
static_assert(TAPS == R * S && UNITS == TAPS * CHUNKS && ALL_CHUNKS * 16 >= C,

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 3+1
@@ 8+1
@@ 10+0
    int* fragments;  // the weights as the lanes read them

@@ d194d69e in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 9+2
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

__device__ __forceinline__ void load_fragments(const int* words, WFragment (&atoms)[ATOMS]) {
#pragma unroll
    for (int group = 0; group < W_GROUPS; ++group) {
        const auto loaded = tile::load_words<GROUP_WORDS>(words + group * (GROUP_WORDS * WARP_SIZE));
#pragma unroll
        for (int i = 0; i < GROUP_WORDS; ++i) {
            const int word = group * GROUP_WORDS + i;
            atoms[word / W_WORDS].word[word % W_WORDS] = loaded.word[i];
        }
    }
}

    __device__ __forceinline__ Windows(Source& source, int slab, int first_pixel) {
        Address base = address_of(&source.byte[first_chunk_of(slab)][0][0]);
#pragma unroll
        for (int n = 0; n < BATCH; ++n) {
            constexpr bool IS_STRIDED = ATOM_M % GRID_COLUMNS == 0 && GRID_PIXELS % RUN == 0;  // a constant
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
};

// All products of a slab with BATCH atoms of pixels. The weights of the next step come while one is
// multiplied; behind the last slab's last there is one more to load.
__device__ __forceinline__ void multiply(
    WeightsAt at, Source& source, int slab, int first_pixel, Sums& sums) {
    const Windows windows(source, slab, first_pixel);
    Weights next = at.load();
    const int lane_chunk = tile::lane() / ATOM_M % STEP_CHUNKS;
#pragma unroll 1
    for (int unit = 0; unit < UNITS; unit += STEP_CHUNKS) {
        const Weights weights = next;
        next = at.load();
        const int offset = offset_of(unit + lane_chunk);
        multiply_step(windows, offset, weights, sums);
    }
}

// The outputs of a tile's pixels: the warps take slabs and runs of pixels in turn.
__device__ __forceinline__ void run(
    const Team& team, const Arguments& args, Source& source, const Sink& sink) {
#pragma unroll 1
    for (int item = team.warp(); item < BLOCK_SLABS * RUNS; item += THREADS / WARP_SIZE) {
        const int index = item / RUNS, first_pixel = item % RUNS * RUN, slab = first_slab(team) + index;
        if (ALL_SLABS % BLOCK_SLABS != 0 && slab >= ALL_SLABS) return;
        Sums sums = {};
        multiply(WeightsAt(args.fragments, slab), source, slab, first_pixel, sums);
        Channel channels[LANE_K];
        load_channels(args, slab * SLAB_K + channel_lane() * LANE_K, channels);
        finish_pixels(sink, slab, first_pixel, sums, channels);
    }
}

// What x_zero_point adds to every pixel of a channel, because padding is stored as x_zero. Once for a set of
// weights, a block a channel.
struct FoldShared {
    Sum partial[FOLD_THREADS];
};

__device__ __forceinline__ void fold(const Arguments& args) {
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
        offset = tile::wrapping_add(offset, tile::load(args.int32_bias + k));
        args.offset[k] = offset;
    }
}

@@ aea5eeca in whole/fused-small-image-sm_90a.cu: struct Shared {
@@ 3+1

// Persistent blocks, as many as are resident at a time, have one tile after the other.
// The first convolution leaves its outputs in shared memory, as bytes, where the second finds its inputs.
// The next tile's input comes meanwhile, into the cache.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
conv2d_conv2d(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Team team;
    tile::launch_dependents();
    Activations& activations = shared.activations;
    tile::wait_on_dependency();
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        tile::barrier();  // the last intermediate has been read
        const first::Sink mid(activations.mid);
        first::run(team, args.first, out_tile, mid);
        tile::barrier();
        if (index + GRID_TEAMS < TILES) first::prefetch_l2(args.first, Tile(index + GRID_TEAMS));
        const second::Sink out(args.second, out_tile);
        second::run(team, args.second, activations.mid, out);
    }
}

extern "C" __global__ void __launch_bounds__(128)
second_fold(const Arguments args) {
    fold(args.second);
}
