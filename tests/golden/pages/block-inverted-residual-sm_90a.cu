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

@@ d32e6ba5 in pages/fused-depthwise-pointwise-sm_90a.cu: // The config.
@@ 4+2
constexpr int BLOCKS_PER_SM = 1;  // resident blocks per multiprocessor
constexpr int TEAMS = 2;  // teams per block; each computes tiles of its own

@@ b6ee8684 in pages/fused-pointwise-depthwise-gfx942.hip: // What follows.
@@ 2+2
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 128;  // threads per team
@@ 8+1
constexpr int GRID_TEAMS = 264;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 10+2
constexpr bool LOADS_ASYNC = true;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = true;  // some weights are copied asynchronously
@@ 18+0
constexpr int MID2_STRIDE_H = 1;
constexpr int MID2_STRIDE_W = 1;
constexpr int MID2_PAD_TOP = 0;
constexpr int MID2_PAD_LEFT = 0;
@@ 23+2
constexpr int MID2_CHUNKS = 9;  // chunks of 16 channels that a block needs
constexpr int MID2_SMEM_CHUNKS = 10;  // chunks in shared memory
constexpr int MID2_PLANE = 113;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 10;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 103152;

// The tensors that a tile of output pixels needs. The outputs of a convolution that another one follows never
// leave shared memory.
struct Activations {
    Planes<IN_SMEM_CHUNKS, IN_PLANE> input;
    Planes<MID_SMEM_CHUNKS, MID_PLANE> mid;
    Planes<MID2_SMEM_CHUNKS, MID2_PLANE> mid2;
};

// A tile of the third convolution's output pixels, and the first pixel of each intermediate tensor that
// it needs. Pixels that neighbouring tiles both need are computed for each of them.
struct Tile {
    int n, row, column;

    __device__ __forceinline__ int mid_row() const { return mid2_row() * MID_STRIDE_H - MID_PAD_TOP; }
    __device__ __forceinline__ int mid_column() const { return mid2_column() * MID_STRIDE_W - MID_PAD_LEFT; }
    __device__ __forceinline__ int mid2_row() const { return row * MID2_STRIDE_H - MID2_PAD_TOP; }
    __device__ __forceinline__ int mid2_column() const { return column * MID2_STRIDE_W - MID2_PAD_LEFT; }
};

@@ ff69ff9f in pages/fused-pointwise-depthwise-gfx942.hip: // What follows.
@@ 3+4
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 32;  // output channels per slab, which is a warp's
constexpr int ALL_SLABS = 5;
constexpr int BLOCK_SLABS = 5;  // slabs per block
@@ 11+1
constexpr int STEP_CHUNKS = 2;  // chunks per step, which is an instruction or two
@@ 13+1
constexpr bool WHOLE_TAPS = true;  // no step reads chunks of two taps

@@ 2cb96d46 in pages/fused-cluster-sm_90a.cu: // The weights of the block's slabs in shared memory. A lane reads one step past the last, and does not use
@@ 5+1

    template <class Shared>
    __device__ __forceinline__ BlockWeights(const Arguments&, Shared& shared)
        : smem(shared.first_weights), words(smem.weights) {}

@@ // The config.
ROWS=4 COLUMNS=2
constexpr int VECTOR = 4;  // channels per thread
RUN=2

@@ 7d51c7a5 in pages/fused-pointwise-depthwise-gfx942.hip: // What follows.
@@ 12+0
constexpr int BORDERED_ROWS = 8;  // those rows and the padding around them
constexpr int BORDERED_COLUMNS = 14;
constexpr int BORDER_TOP = 0;  // rows of padding above
constexpr int BORDER_LEFT = 0;
constexpr bool PADS_OUTSIDE = false;  // pixels outside the image are written as padding

@@ 332d0a02 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
@@ 8+1

using Intermediate = decltype(Activations::mid2);
[[maybe_unused]] constexpr bool HAS_BORDER = BORDERED_ROWS != GRID_ROWS || BORDERED_COLUMNS != GRID_COLUMNS;

    __device__ __forceinline__ TilePlace(
        Intermediate& tensor, const Team& team, const Tile& out_tile, unsigned padding)
        : tensor(tensor),
          first_k(BY_SLICES ? team.cluster_block * (MID2_CHUNKS * Y_CHUNK) : 0),
          row(out_tile.mid2_row()),
          column(out_tile.mid2_column()),
          padding(padding) {}

// Takes the outputs: a tile of the intermediate tensor in shared memory, where the third convolution
// reads it.
using Sink = TilePlace;

@@ 28e5bc6a in pages/fused-warpgroups-sm_90a.cu: //   acc = sum over r, s, c of x * w, in int32
@@ 5+1
namespace third {

@@ // The config.
constexpr int ATOMS = 3;  // eights of channels per warpgroup

// What follows.
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 24;  // output channels per slab, which is a warpgroup's
constexpr int ALL_SLABS = 1;
constexpr int BLOCK_SLABS = 1;  // slabs per block
constexpr int BUFFERS = 1;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 1;  // warpgroups that multiply a slab together
constexpr int TAPS = 1;
constexpr int CHUNKS = 10;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 10;  // chunks of the reduction
constexpr int POSITIONS = 112;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 8;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 1;  // taps that are written out
constexpr int UNROLL_CHUNKS = 5;  // pairs of chunks that are written out
constexpr int SOURCE_ROWS = 8;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 14;
[[maybe_unused]] constexpr int SOURCE_ROW = 14;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 113;
constexpr int GRID_ROWS = 8;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 112;
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist
constexpr int VECTOR_K = 2;  // channels per write

@@ af2f2db2 in whole/fused-small-image-sm_90a.cu: static_assert(REDUCTION == R * S * C_GROUP, "REDUCTION must be R * S * C_GROUP");
@@ 10+0
static_assert(C == second::K, "C must be the output channels of the second convolution");
static_assert(IN_H == second::OUT_H, "IN_H must be its output rows");
static_assert(IN_W == second::OUT_W, "IN_W must be its output columns");

// The input: the intermediate tensor that the second convolution left in shared memory.
using Source = decltype(Activations::mid2);

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

    template <class Shared>
    __device__ __forceinline__ BlockWeights(const Arguments&, Shared& shared)
        : smem(shared.third_weights) {}

@@ a9868ba2 in whole/fused-small-image-sm_90a.cu:     // Begins to load the block's weights to shared memory, if they are kept there.
@@ 9+1
    __device__ __forceinline__ void fence_input() const { third::fence_input(); }

@@ 0b83ac7d in whole/fused-small-image-sm_90a.cu:     // Computes the outputs of a tile, and puts them in the sink.
@@ 3+1
        third::run(team, args, weights, source, sink);

}  // namespace third

@@ de50bd0f in whole/fused-small-image-sm_90a.cu: struct Arguments {
@@ 4+0
    third::Arguments third;

@@ 07c5ec7a in whole/fused-small-image-sm_90a.cu: // The shared memory of a block.
@@ 4+1
    alignas(16) first::SmemWeights first_weights;
    alignas(16) third::SmemWeights third_weights;

@@ 78e33d08 in whole/fused-small-image-sm_90a.cu:     Team team;
@@ 5+0
    third::Layer third;

@@ 7a18975d in whole/fused-small-image-sm_90a.cu:     __device__ __forceinline__ Layers(const Arguments& args, Shared& shared)
@@ 5+0
        , third(args.third, shared)

@@ 82f5aad4 in whole/fused-small-image-sm_90a.cu:     // Loads weights and writes padding, which depend on no earlier launch. Then it waits for the launch
@@ 5+1
        first.load_weights(team);
        third.load_weights(team);

@@ 91f29dbb in whole/fused-small-image-sm_90a.cu:     // Begins to load the first tile's input. Copies of the last convolution's weights follow, in a group of
@@ 7+1
            third.load_weights(team);

    __device__ __forceinline__ void run_second(const Tile& out_tile) {
        const second::Sink mid2(activations.mid2, team, out_tile, third.padding());
        second.run(team, activations.mid, mid2);
    }

    // Shows the third convolution what this thread wrote.
    __device__ __forceinline__ void await_third() {
        third.load_ahead(team);
        third.fence_input();
    }

    // Computes the outputs, once weights that one thread fetched have come.
    __device__ __forceinline__ void run_last(const Tile& out_tile, bool is_first_tile) {
        if (is_first_tile) third.await_weights();
        const third::Sink out(third.args, out_tile);
        third.run(team, activations.mid2, out);
    }
};

@@ 6c471fbf in pages/fused-warpgroups-sm_90a.cu: // A block has TEAMS teams of threads, which share the weights. Each team computes one tile after the other,
@@ 4+1
conv2d_conv2d_conv2d(const Arguments args) {
@@ 24+0
        layers.run_second(out_tile);
        layers.await_third();
        tile::barrier_of_team(team.number);  // the third's input is there

extern "C" __global__ void __launch_bounds__(128)
third_repack_weights(const Arguments args) {
    third::repack_weights(args.third);
}
