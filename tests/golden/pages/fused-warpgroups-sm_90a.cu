// conv2d:n=4:h=28:w=28:c=96:k=96:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu+conv2d:n=4:h=28:w=28:c=96:k=192:r=1:s=1:x_type=int8:w_type=int8:
//     out_type=int8:per_channel:bias=int32:activation=relu:residual=int8
//
// target    sm_90a
// config    fused tile_h=8 tile_w=8 warps=4 blocks_per_sm=1 teams=3 cluster_blocks=1 weights_in_smem=2
//           on_wgmma=2 first_m=1 first_n=4 second_m=1 second_n=8
// launch    first_repack_weights<<<162x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<36x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<22x1x1, 384, 153424 B>>> when: call

// The config.
constexpr int TILE_H = 8;  // output rows of a tile
constexpr int TILE_W = 8;  // output columns of a tile
constexpr int BLOCKS_PER_SM = 1;  // resident blocks per multiprocessor
constexpr int TEAMS = 3;  // teams per block; each computes tiles of its own
[[maybe_unused]] constexpr int CLUSTER_BLOCKS = 1;  // blocks that compute a tile together

// What follows.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 128;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 384;
constexpr int TILES_H = 4;  // tiles down an image
constexpr int TILES_W = 4;  // tiles across an image
constexpr int TILES = 64;  // tiles of all images
constexpr int GRID_TEAMS = 66;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = true;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = true;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = true;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = false;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 0;
constexpr int MID_PAD_LEFT = 0;
constexpr int IN_SMEM_CHUNKS = 6;
constexpr int IN_PLANE = 105;
constexpr int MID_CHUNKS = 6;  // chunks of 16 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 6;  // chunks in shared memory
constexpr int MID_PLANE = 65;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 6;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 153424;

@@ f8d8ff38 in whole/fused-small-image-sm_90a.cu: // The tensors that a tile of output pixels needs. The outputs of a convolution that another one follows never
@@ 4+0
    Planes<IN_SMEM_CHUNKS, IN_PLANE> input;

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=28 OUT_W=28 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=864 X_SIGNED=true W_SIGNED=true

// What follows.
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 32;  // output channels per slab, which is a warpgroup's
constexpr int ALL_SLABS = 3;
constexpr int BLOCK_SLABS = 3;  // slabs per block
constexpr int BUFFERS = 3;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 1;  // warpgroups that multiply a slab together
constexpr int TAPS = 9;
constexpr int CHUNKS = 6;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 54;  // chunks of the reduction
constexpr int POSITIONS = 64;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 10;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 9;  // taps that are written out
constexpr int UNROLL_CHUNKS = 3;  // pairs of chunks that are written out
constexpr int SOURCE_ROWS = 10;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 10;
[[maybe_unused]] constexpr int SOURCE_ROW = 10;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 105;
constexpr int GRID_ROWS = 8;  // output rows of a tile
constexpr int GRID_COLUMNS = 8;
constexpr int GRID_PIXELS = 64;
constexpr int BORDERED_ROWS = 8;  // those rows and the padding around them
constexpr int BORDERED_COLUMNS = 8;
constexpr int BORDER_TOP = 0;  // rows of padding above
constexpr int BORDER_LEFT = 0;
constexpr bool PADS_OUTSIDE = false;  // pixels outside the image are written as padding
constexpr int WIDTH = 16;  // bytes of the input per load
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist

@@ 518970c2 in whole/fused-small-image-sm_90a.cu: // In shared memory: the weights of BUFFERS slabs, chunk after chunk and tap after tap, and the parameters of
@@ 7+1

    template <class Shared>
    __device__ __forceinline__ BlockWeights(const Arguments&, Shared& shared)
        : smem(shared.first_weights) {}

//   acc = sum over r, s, c of x * w, in int32
//   v   = (acc + bias[k]) * multiplier[k]
//   r   = v + residual * residual_scale
//   y   = clamp(round_half_to_even(relu(r))) as int8
namespace second {

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=28 OUT_W=28 K=192 K_GROUP=192 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=3136 REDUCTION=96 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int ATOMS = 8;  // eights of channels per warpgroup

// What follows.
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 64;  // output channels per slab, which is a warpgroup's
constexpr int ALL_SLABS = 3;
constexpr int BLOCK_SLABS = 3;  // slabs per block
constexpr int BUFFERS = 3;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 1;  // warpgroups that multiply a slab together
constexpr int TAPS = 1;
constexpr int CHUNKS = 6;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 6;  // chunks of the reduction
constexpr int POSITIONS = 64;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 8;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 1;  // taps that are written out
constexpr int UNROLL_CHUNKS = 3;  // pairs of chunks that are written out
constexpr int SOURCE_ROWS = 8;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 8;
[[maybe_unused]] constexpr int SOURCE_ROW = 8;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 65;
constexpr int GRID_ROWS = 8;  // output rows of a tile
constexpr int GRID_COLUMNS = 8;
constexpr int GRID_PIXELS = 64;
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist
constexpr int VECTOR_K = 16;  // channels per write

// wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8: 64 pixels by SLAB_K channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, as contiguous matrices of eight
// rows x 16 bytes, without a swizzle. Four warps execute it together; its sums are awaited later.
static_assert(X_SIGNED && W_SIGNED, "X and W must have the types of the instruction");
struct Operand {
    unsigned long long descriptor;

@@ f156097b in whole/fused-small-image-sm_90a.cu: // Computes D += A * B.
@@ 8+1
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
@@ 12+3
        "%12, %13, %14, %15, "
        "%16, %17, %18, %19, "
        "%20, %21, %22, %23, "
        "%24, %25, %26, %27, "
        "%28, %29, %30, %31}, "
        "%32, "
        "%33, adds;\n"
@@ 19+1
          SUMS_OF_ATOM(3),
          SUMS_OF_ATOM(4),
          SUMS_OF_ATOM(5),
          SUMS_OF_ATOM(6),
          SUMS_OF_ATOM(7)

@@ 07c5ec7a in whole/fused-small-image-sm_90a.cu: // The shared memory of a block.
@@ 4+0
    alignas(16) first::SmemWeights first_weights;

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 5+0
        first.load_weights(team);

// A block has TEAMS teams of threads, which share the weights. Each team computes one tile after the other,
// as a persistent block does, and meets the other teams only once, for the weights.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_SM)
conv2d_conv2d(const Arguments args) {
    Layers layers(args, tile::shared_memory<Shared>());
    Team& team = layers.team;
    layers.begin();
    if constexpr (COPIES_WEIGHTS) team.copies.commit();
    if (team.first_tile() < TILES) {
        layers.first.load_input(team, layers.activations, Tile(team.first_tile()));
    }
    if constexpr (LOADS_ASYNC) team.copies.commit();
    if constexpr (COPIES_WEIGHTS) team.copies.wait<LOADS_ASYNC>();
    tile::fence_proxy_async();
    tile::barrier();  // the weights are there
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        layers.await_input();
        tile::barrier_of_team(team.number);  // the input is there, and the intermediate tensors are free
        layers.run_first(out_tile);
        layers.await_second();
        tile::barrier_of_team(team.number);  // the second's input is there
        layers.prefetch_input(index + GRID_TEAMS);
        team.begin_last(index);
        layers.run_last(out_tile, index == team.first_tile());
    }
}
