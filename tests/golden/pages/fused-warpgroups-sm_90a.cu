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

@@ // The config.
constexpr int TILE_H = 8;  // output rows of a tile
TILE_W=8 BLOCKS_PER_SM=1 TEAMS=3 CLUSTER_BLOCKS=1

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 128;  // threads per team
BLOCK_THREADS=384 TILES_H=4 TILES_W=4
constexpr int TILES = 64;  // tiles of all images
GRID_TEAMS=66 LOADS_INPUT=true LOADS_ASYNC=true COPIES_WEIGHTS=true WEIGHTS_BEHIND_INPUT=false BY_SLICES=false
MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=0 MID_PAD_LEFT=0 IN_SMEM_CHUNKS=6 IN_PLANE=105 MID_CHUNKS=6
MID_SMEM_CHUNKS=6 MID_PLANE=65 PART_CHUNKS=6 SMEM_BYTES=153424

@@ f8d8ff38 in whole/fused-small-image-sm_90a.cu: // The tensors that a tile of output pixels needs. The outputs of a convolution that another one follows never
@@ 4+0
    Planes<IN_SMEM_CHUNKS, IN_PLANE> input;

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=28 OUT_W=28 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=864 X_SIGNED=true W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=3 BLOCK_SLABS=3 BUFFERS=3 OF_SLAB=1 TAPS=9 CHUNKS=6 UNITS=54 POSITIONS=64
EIGHTS_STRIDE=10 UNROLL_TAPS=9 UNROLL_CHUNKS=3 SOURCE_ROWS=10 SOURCE_COLUMNS=10 SOURCE_ROW=10
INTERLEAVED=false SOURCE_PLANE=105 GRID_ROWS=8 GRID_COLUMNS=8 GRID_PIXELS=64 BORDERED_ROWS=8
BORDERED_COLUMNS=8 BORDER_TOP=0 BORDER_LEFT=0 PADS_OUTSIDE=false WIDTH=16 DIVIDED=false HAS_K_REMAINDER=false

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
ATOMS=8

@@ // What follows.
RUN=64 SLAB_K=64 ALL_SLABS=3 BLOCK_SLABS=3 BUFFERS=3 OF_SLAB=1 TAPS=1 CHUNKS=6 UNITS=6 POSITIONS=64
EIGHTS_STRIDE=8 UNROLL_TAPS=1 UNROLL_CHUNKS=3 SOURCE_ROWS=8 SOURCE_COLUMNS=8 SOURCE_ROW=8 INTERLEAVED=false
SOURCE_PLANE=65 GRID_ROWS=8 GRID_COLUMNS=8 GRID_PIXELS=64 DIVIDED=false HAS_K_REMAINDER=false VECTOR_K=16

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
