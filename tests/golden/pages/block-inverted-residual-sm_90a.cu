// conv2d:n=32:h=56:w=56:c=24:k=144:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:
//     activation=relu+conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu+conv2d:n=32:h=56:w=56:c=144:k=24:r=1:
//     s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu:residual=int8
//
//   y = third(second(first(x, w1), w2), w3); int8 between the three, in shared memory; the math of each is
//       with it
//
// target    sm_90a
// config    block tile_h=8 tile_w=14 warps=4 blocks_per_sm=1 teams=2 cluster_blocks=1 weights_in_smem=2
//           on_wgmma=1 first_m=2 first_n=4 second_m=4 second_n=1 third_m=1 third_n=3
// launch    first_repack_weights<<<12x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    third_repack_weights<<<8x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d_conv2d<<<132x1x1, 256, 103152 B>>> when: call

@@ // The config.
constexpr int TILE_H = 8;  // output rows of a block
TILE_W=14 BLOCKS_PER_SM=1
constexpr int TEAMS = 2;  // of a block, each with tiles of its own

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 128;  // of a team
BLOCK_THREADS=256 TILES_H=7 TILES_W=4 TILES=896 GRID_TEAMS=264 MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=1
MID_PAD_LEFT=1 MID2_STRIDE_H=1 MID2_STRIDE_W=1 MID2_PAD_TOP=0 MID2_PAD_LEFT=0 IN_CHUNKS=2 IN_PLANE=161
MID_CHUNKS=9 MID_PLANE=161 MID2_CHUNKS=9 MID2_PLANE=113 SMEM_BYTES=103152

@@ 872e4269 in whole/fused-small-image-sm_90a.cu: // Bytes of pixels in shared memory: chunk after chunk, each with 16 channels of every pixel. Eight
@@ 8+1
using Input = Planes<IN_CHUNKS, IN_PLANE>;
// The two intermediate tensors, which are never in device memory.
@@ 10+0
using Mid2 = Planes<MID2_CHUNKS + 1, MID2_PLANE>;

// What a tile of output pixels needs of every tensor.
struct Activations {
    Input input;
    Mid mid;
    Mid2 mid2;
};

// A tile of the third convolution's output pixels, and where the pixels begin that it needs of the
// intermediate: what several tiles need is computed for each of them.
struct Tile {
    int n, row, column;

    __device__ __forceinline__ int mid_row() const { return mid2_row() * MID_STRIDE_H - MID_PAD_TOP; }
    __device__ __forceinline__ int mid_column() const { return mid2_column() * MID_STRIDE_W - MID_PAD_LEFT; }
    __device__ __forceinline__ int mid2_row() const { return row * MID2_STRIDE_H - MID2_PAD_TOP; }
    __device__ __forceinline__ int mid2_column() const { return column * MID2_STRIDE_W - MID2_PAD_LEFT; }
};

@@ 6c8c89ef in pages/fused-warpgroups-sm_90a.cu:     __device__ __forceinline__ Team() : number(tile::team()), first(tile::block_x() * TEAMS + number) {}
@@ 5+0
    static __device__ __forceinline__ int warp() { return tile::warp() % (THREADS / WARP_SIZE); }

@@ // What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 32;  // output channels of a warp
ALL_SLABS=5 BLOCK_SLABS=5 TAPS=1
constexpr int CHUNKS = 2;  // of 16 input channels that a slab looks at
ALL_CHUNKS=2
constexpr int UNITS = 2;  // chunks of a slab's reduction
STEP_CHUNKS=2
constexpr int STEPS = 1;  // along the reduction
SOURCE_ROWS=10 SOURCE_COLUMNS=16 SOURCE_PLANE=161 GRID_ROWS=10 GRID_COLUMNS=16 GRID_PIXELS=160 WIDTH=8
HAS_K_REMAINDER=true

@@ fec8ec2a in pages/fused-cluster-sm_90a.cu: // The weights of a block's slabs in shared memory. One step more is read, and not used.
@@ 4+1

@@ 2560c612 in pages/fused-cluster-sm_90a.cu: // Copies the block's weights to shared memory: asks for them, and does not wait.
@@ 6+1
#pragma unroll 4
    for (int i = tile::thread() * 4; i < BYTES / 4; i += BLOCK_THREADS * 4) {
        team.copies.copy<16>(tile::shared_address(&smem.weights[i]), from + i, true);
    }

@@ f27fdeb3 in pages/fused-depthwise-pointwise-sm_90a.cu: // All products of a slab with BATCH atoms of pixels. The weights of the next step come while one is
@@ 7+2
#pragma unroll
@@ 12+1
        const int offset = offset_of(unit);

@@ // The config.
ROWS=4 COLUMNS=2
constexpr int VECTOR = 4;  // channels of a thread
constexpr int RUN = 2;  // neighbouring outputs that share the words of the first

@@ 41982626 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
@@ 8+1

// What takes the outputs: a tile of pixels in shared memory, as the third convolution reads it.
using Intermediate = Mid2;
struct Sink {
    Intermediate& tensor;

@@ 28e5bc6a in pages/fused-warpgroups-sm_90a.cu: //   acc = sum over r, s, c of x * w, in int32
@@ 5+1
namespace third {

@@ // The config.
ATOMS=3

@@ // What follows.
RUN=64 SLAB_K=24 ALL_SLABS=1 BLOCK_SLABS=1 TAPS=1 CHUNKS=10 UNITS=10 POSITIONS=112 EIGHTS_STRIDE=8
SOURCE_ROWS=8 SOURCE_COLUMNS=14 SOURCE_PLANE=113 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=false VECTOR_K=2

@@ 774ef282 in whole/fused-small-image-sm_90a.cu: static_assert(REDUCTION == R * S * C_GROUP && C % C_GROUP == 0 && K % K_GROUP == 0,
@@ 12+3
static_assert(C == second::K, "C must be the channels that it gives");
static_assert(IN_H == second::OUT_H, "IN_H must be its rows");
static_assert(IN_W == second::OUT_W, "IN_W must be its columns");

// What holds the inputs.
using Source = Mid2;

// wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.s8: 64 pixels by SLAB_K channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, as contiguous matrices of eight
// rows x 16 bytes, without a swizzle. Four warps execute it together; its sums are awaited later.
static_assert(X_SIGNED && W_SIGNED, "X and W must have the types of the instruction");
struct Operand {
    unsigned long long descriptor;

@@ f156097b in whole/fused-small-image-sm_90a.cu: // Computes D += A * B.
@@ 8+1
        "wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.s8 {"
@@ 11+4
        "%8, %9, %10, %11}, "
        "%12, "
        "%13, adds;\n"
@@ 18+2
          SUMS_OF_ATOM(2)

}  // namespace third

@@ de50bd0f in whole/fused-small-image-sm_90a.cu: struct Arguments {
@@ 4+0
    third::Arguments third;

struct Shared {
    Activations activations[TEAMS];
    first::SmemWeights first_weights;
    third::SmemWeights third_weights;
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

@@ ecedfdae in pages/fused-warpgroups-sm_90a.cu: // A block has TEAMS teams, which share the weights. Each has one tile after the other.
@@ 2+1
// Each convolution leaves its outputs in shared memory, as bytes, where the next finds its inputs.
@@ 5+1
conv2d_conv2d_conv2d(const Arguments args) {
@@ 11+1
    third::load_weights(team, args.third, shared.third_weights);
@@ 24+1
@@ 26+1
        const first::Sink mid(activations.mid, out_tile, second::padding_word(args.second));
@@ 28+1
        const second::OwnChannels second_own(args.second, second::own_k(team));
@@ 34+0
        const second::Sink mid2(activations.mid2);
        second::run(team, args.second, second_own, activations.mid, mid2);
        tile::fence_proxy_async();
        tile::barrier_of_team(team.number);
@@ 35+1
            shared.third_weights.mbarrier.wait();  // they came meanwhile
@@ 37+2
        const third::Sink out(args.third, out_tile);
        third::run(team, args.third, shared.third_weights, activations.mid2, out);

extern "C" __global__ void __launch_bounds__(128)
third_repack_weights(const Arguments args) {
    repack_weights(args.third);
}
