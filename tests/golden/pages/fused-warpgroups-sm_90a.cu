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
constexpr int TILE_H = 8;  // output rows of a block
TILE_W=8 BLOCKS_PER_SM=1
constexpr int TEAMS = 3;  // of a block, each with tiles of its own

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 128;  // of a team
BLOCK_THREADS=384 TILES_H=4 TILES_W=4 TILES=64 GRID_TEAMS=66 MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=0
MID_PAD_LEFT=0 IN_CHUNKS=6 IN_PLANE=105 MID_CHUNKS=6 MID_PLANE=65 SMEM_BYTES=153424

@@ 872e4269 in whole/fused-small-image-sm_90a.cu: // Bytes of pixels in shared memory: chunk after chunk, each with 16 channels of every pixel. Eight
@@ 8+0
using Input = Planes<IN_CHUNKS, IN_PLANE>;

@@ 6ae9efca in whole/fused-small-image-sm_90a.cu: // What a tile of output pixels needs of every tensor.
@@ 3+0
    Input input;

    __device__ __forceinline__ Team() : number(tile::team()), first(tile::block_x() * TEAMS + number) {}
    __device__ __forceinline__ int first_tile() const { return first; }
    // Numbers within the team.
    static __device__ __forceinline__ int thread() { return tile::thread() % THREADS; }
    static __device__ __forceinline__ int warpgroup() { return tile::warpgroup() % (THREADS / 128); }
};

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=28 OUT_W=28 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=864 X_SIGNED=true W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=32 ALL_SLABS=3 BLOCK_SLABS=3 TAPS=9 CHUNKS=6 UNITS=54 POSITIONS=64 EIGHTS_STRIDE=10
SOURCE_ROWS=10 SOURCE_COLUMNS=10 SOURCE_PLANE=105 GRID_ROWS=8 GRID_COLUMNS=8 GRID_PIXELS=64 WIDTH=16
HAS_K_REMAINDER=false

@@ 774ef282 in whole/fused-small-image-sm_90a.cu: static_assert(REDUCTION == R * S * C_GROUP && C % C_GROUP == 0 && K % K_GROUP == 0,
@@ 12+3

    __device__ __forceinline__ explicit Sink(Intermediate& tensor) : tensor(tensor) {}

    // Neighbouring channels of a pixel of the tile.
    template <int COUNT>
    __device__ __forceinline__ void put(int pixel, int k, Finished (&finished)[COUNT]) const {
        constexpr int TWOS = COUNT & -COUNT, STORE_K = TWOS < 16 ? TWOS : 16;  // a power of two
#pragma unroll
        for (int i = 0; i < COUNT; i += STORE_K) {
            if (HAS_K_REMAINDER && k + i >= MID_CHUNKS * 16) continue;
            unsigned char* const to = &tensor.byte[(k + i) / 16][pixel][(k + i) % 16];
            write(reinterpret_cast<Output*>(to), *reinterpret_cast<const Finished(*)[STORE_K]>(&finished[i]));
        }
    }
};

@@ b559fd4f in whole/fused-small-image-sm_90a.cu: // In shared memory: the weights, chunk after chunk and tap after tap, and the parameters of the channels,
@@ 7+1

@@ c366ad82 in whole/fused-small-image-sm_90a.cu: // Copies the block's weights, and its channel parameters, to shared memory: asks for them, and does not wait.
@@ 6+2
#pragma unroll 4
    for (int i = tile::thread() * 16; i < BYTES; i += BLOCK_THREADS * 16) {
        team.copies.copy<16>(tile::shared_address(&smem.weights[0][0][0][0] + i), from + i / 4, true);
    }
    for (int i = tile::thread(); i < BLOCK_SLABS * SLAB_K; i += BLOCK_THREADS) {

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
RUN=64 SLAB_K=64 ALL_SLABS=3 BLOCK_SLABS=3 TAPS=1 CHUNKS=6 UNITS=6 POSITIONS=64 EIGHTS_STRIDE=8 SOURCE_ROWS=8
SOURCE_COLUMNS=8 SOURCE_PLANE=65 GRID_ROWS=8 GRID_COLUMNS=8 GRID_PIXELS=64 HAS_K_REMAINDER=false VECTOR_K=16

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

@@ aea5eeca in whole/fused-small-image-sm_90a.cu: struct Shared {
@@ 2+1
    Activations activations[TEAMS];
    first::SmemWeights first_weights;

// A block has TEAMS teams, which share the weights. Each has one tile after the other.
// The first convolution leaves its outputs in shared memory, as bytes, where the second finds its inputs.
// The next tile's input comes meanwhile.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_PER_SM)
conv2d_conv2d(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Team team;
    tile::launch_dependents();
    Activations& activations = shared.activations[team.number];
    first::load_weights(team, args.first, shared.first_weights);
    second::load_weights(team, args.second, shared.second_weights);
    team.copies.commit();
    tile::wait_on_dependency();
    if (team.first_tile() < TILES) {
        first::load_input(team, args.first, activations.input, Tile(team.first_tile()));
    }
    team.copies.commit();
    team.copies.wait<1>();
    tile::fence_proxy_async();
    tile::barrier();  // the weights are there, or asked for
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        team.copies.wait<0>();
        tile::fence_proxy_async();
        tile::barrier_of_team(team.number);  // the input is there, and the last intermediate has been read
        const first::Sink mid(activations.mid);
        first::run(team, args.first, shared.first_weights, activations.input, mid);
        tile::fence_proxy_async();
        tile::barrier_of_team(team.number);
        if (index + GRID_TEAMS < TILES) {
            first::load_input(team, args.first, activations.input, Tile(index + GRID_TEAMS));
        }
        team.copies.commit();
        if (index == team.first_tile()) {
            shared.second_weights.mbarrier.wait();  // they came meanwhile
        }
        const second::Sink out(args.second, out_tile);
        second::run(team, args.second, shared.second_weights, activations.mid, out);
    }
}
