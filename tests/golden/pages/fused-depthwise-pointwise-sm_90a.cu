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

// The config.
constexpr int TILE_H = 8;  // output rows of a tile
constexpr int TILE_W = 14;  // output columns of a tile
constexpr int BLOCKS_PER_SM = 2;  // resident blocks per multiprocessor
constexpr int TEAMS = 1;  // teams per block; each computes tiles of its own
[[maybe_unused]] constexpr int CLUSTER_BLOCKS = 1;  // blocks that compute a tile together

// What follows.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 128;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 128;
constexpr int TILES_H = 7;  // tiles down an image
constexpr int TILES_W = 4;  // tiles across an image
constexpr int TILES = 896;  // tiles of all images
constexpr int GRID_TEAMS = 264;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = false;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = false;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = false;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = false;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 0;
constexpr int MID_PAD_LEFT = 0;
constexpr int MID_CHUNKS = 9;  // chunks of 16 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 9;  // chunks in shared memory
constexpr int MID_PLANE = 113;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 9;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 16272;

// Returns true if `said` is true in all active lanes, so that a warp takes one branch instead of both in
// turn.
__device__ __forceinline__ bool warp_uniform(bool said) { return __all_sync(__activemask(), said); }

//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8
namespace first {

@@ // The config.
ROWS=2 COLUMNS=2
constexpr int VECTOR = 8;  // channels per thread
RUN=2

@@ 62eb327e in whole/fused-small-image-sm_90a.cu: // What follows.
@@ 3+4
constexpr int VECTORS = 18;  // vectors of channels
constexpr int BLOCK_K = 144;  // channels per block
constexpr int SOURCE_ROWS = 10;  // input rows that a tile needs
@@ 10+1
constexpr int GRID_ROWS = 8;  // output rows of a tile
@@ 12+2
constexpr int GRID_PIXELS = 112;
constexpr int BORDERED_ROWS = 8;  // those rows and the padding around them

@@ 332d0a02 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 9+0
    float y_zero;  // the output zero point

@@ 1a17263c in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 9+2
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 17+0
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].y_zero = args.y_zero;

// Computes a thread's patches of some channels. Patches whose pixels all lie in the image have code of their
// own.
__device__ __forceinline__ void run_channels(
    const Team& team, const Arguments& args, int k, const Source& source, const Sink& sink) {
    const Filters filters = load_filters(args, k);
    Channel channels[VECTOR];
    load_channels(args, k, channels);
#pragma unroll 1
    for (int patch = team.thread() / ACROSS; patch < ALL_PATCHES; patch += AT_ONCE) {
        const int row = patch / PATCHES_W * ROWS, column = patch % PATCHES_W * COLUMNS;
        const InputPatch from(args, source, row, column, k);
        const OutputPatch to(sink, row, column, k);
        if (tile::warp_uniform(from.is_inside())) {
            run_patch<true>(from, to, filters, channels);
        } else {
            run_patch<false>(from, to, filters, channels);
        }
    }
}

//   acc = sum over r, s, c of (x - x_zero) * w, in int32
//   y   = clamp(round_half_to_even(relu6((acc + bias[k]) * multiplier[k])) + y_zero) as uint8
namespace second {

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=144 OUT_H=56 OUT_W=56 K=24 K_GROUP=24 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=100352 REDUCTION=144 X_SIGNED=false W_SIGNED=true

@@ // The config.
ATOMS=2 BATCH=2

// What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 16;  // output channels per slab, which is a warp's
constexpr int ALL_SLABS = 2;
constexpr int BLOCK_SLABS = 2;  // slabs per block
constexpr int TAPS = 1;
constexpr int CHUNKS = 9;  // chunks of 16 input channels that a slab needs
constexpr int ALL_CHUNKS = 9;
constexpr int UNITS = 9;  // chunks of a slab's reduction
constexpr int STEP_CHUNKS = 2;  // chunks per step, which is an instruction or two
constexpr int STEPS = 5;  // along the reduction
constexpr bool WHOLE_TAPS = false;  // no step reads chunks of two taps
[[maybe_unused]] constexpr bool IS_ROLLED = true;  // the loop over steps is not written out whole
constexpr int UNROLL = 1;  // steps that are written out
constexpr bool ADDS_WINDOWS = false;  // the sums of windows are needed
constexpr int SOURCE_ROWS = 8;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 14;
[[maybe_unused]] constexpr int SOURCE_ROW = 14;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 113;
constexpr int GRID_ROWS = 8;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 112;
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = true;  // the last slab has channels that do not exist
constexpr int VECTOR_K = 4;  // channels per write
constexpr int FOLD_THREADS = 128;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 3+1
@@ 8+1
@@ 10+0
    int* fragments;  // the weights, repacked

// Folds the input's zero point into the offset of each channel: padding is stored as x_zero, so that it adds
// the same to every pixel. Once for a set of weights, one block per channel.
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

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 5+1

// Persistent blocks, as many as are resident at a time, compute one tile after the other. A convolution
// writes its outputs to shared memory, as bytes, where the next one reads its inputs. Meanwhile the next
// tile's input is loaded: to shared memory, or to the L2 cache where the first convolution reads the image.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_SM)
conv2d_conv2d(const Arguments args) {
    Layers layers(args, tile::shared_memory<Shared>());
    Team& team = layers.team;
    layers.begin();
    layers.load_input(Tile(team.first_tile()));
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        layers.await_input();
        tile::barrier();  // the input is there, and the intermediate tensors are free
        layers.run_first(out_tile);
        layers.await_second();
        tile::barrier();  // the second's input is there
        layers.prefetch_input(index + GRID_TEAMS);
        team.begin_last(index);
        layers.run_last(out_tile, index == team.first_tile());
    }
}

extern "C" __global__ void __launch_bounds__(128)
second_fold(const Arguments args) {
    second::fold(args.second);
}
