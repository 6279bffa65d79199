// conv2d:n=8:h=28:w=28:c=24:k=144:r=1:s=1:x_type=bfloat16:w_type=bfloat16:out_type=bfloat16:per_channel:
//     bias=float32:activation=relu+conv2d:n=8:h=28:w=28:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:
//     x_type=bfloat16:w_type=bfloat16:out_type=bfloat16:per_channel:bias=float32:activation=relu+conv2d:n=8:
//     h=28:w=28:c=144:k=24:r=1:s=1:x_type=bfloat16:w_type=bfloat16:out_type=bfloat16:per_channel:
//     bias=float32:activation=relu
//
//   y = third(second(first(x, w1), w2), w3); bfloat16 between the three, in shared memory; the math of each
//       is with it
//
// target    gfx942
// config    block tile_h=4 tile_w=14 warps=8 blocks_per_sm=1 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=0 first_m=2 first_n=3 second_m=2 second_n=1 third_m=1 third_n=1
// launch    first_repack_weights<<<24x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<11x1x1, 128, 0 B>>> when: prepare
// launch    third_repack_weights<<<22x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d_conv2d<<<112x1x1, 512, 49008 B>>> when: call

// What follows.
constexpr int WARP_SIZE = 64;
constexpr int THREADS = 512;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 512;
constexpr int TILES_H = 7;  // tiles down an image
constexpr int TILES_W = 2;  // tiles across an image
constexpr int TILES = 112;  // tiles of all images
constexpr int GRID_TEAMS = 112;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = true;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = false;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = false;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = false;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 1;
constexpr int MID_PAD_LEFT = 1;
constexpr int MID2_STRIDE_H = 1;
constexpr int MID2_STRIDE_W = 1;
constexpr int MID2_PAD_TOP = 0;
constexpr int MID2_PAD_LEFT = 0;
constexpr int IN_SMEM_CHUNKS = 3;
constexpr int IN_PLANE = 97;
constexpr int MID_CHUNKS = 18;  // chunks of 8 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 18;  // chunks in shared memory
constexpr int MID_PLANE = 97;  // pixels of a chunk
constexpr int MID2_CHUNKS = 18;  // chunks of 8 channels that a block needs
constexpr int MID2_SMEM_CHUNKS = 18;  // chunks in shared memory
constexpr int MID2_PLANE = 57;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 18;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 49008;

//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as bfloat16
namespace first {

@@ // The problem.
IN_H=28 IN_W=28 C=24 C_GROUP=24 OUT_H=28 OUT_W=28 K=144 K_GROUP=144 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=24 X_SIGNED=true W_SIGNED=true

@@ // The config.
ATOMS=3 BATCH=2

@@ ff69ff9f in pages/fused-pointwise-depthwise-gfx942.hip: // What follows.
@@ 4+1
constexpr int SLAB_K = 48;  // output channels per slab, which is a warp's
@@ 8+3
constexpr int CHUNKS = 3;  // chunks of 8 input channels that a slab needs
constexpr int ALL_CHUNKS = 3;
constexpr int UNITS = 3;  // chunks of a slab's reduction
@@ 17+1
constexpr int SOURCE_ROWS = 6;  // input rows that a tile needs
@@ 21+2
constexpr int SOURCE_PLANE = 97;
constexpr int GRID_ROWS = 6;  // output rows of a tile
@@ 24+2
constexpr int GRID_PIXELS = 96;
constexpr int BORDERED_ROWS = 6;  // those rows and the padding around them
@@ 30+1
constexpr int WIDTH = 16;  // bytes of the input per load
@@ 32+1
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist

@@ 390e8a07 in shared.hip: // Writes neighbouring output elements, or padding in their place. To select a word of padding costs less than
@@ 7+11

//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as bfloat16
namespace second {

@@ // The problem.
IN_H=28 IN_W=28 C=144 C_GROUP=1 OUT_H=28 OUT_W=28 K=144 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=9 X_SIGNED=true W_SIGNED=true

@@ 62eb327e in whole/fused-small-image-sm_90a.cu: // What follows.
@@ 2+4
constexpr int WORDS = 3;  // taps per filter row, each a word
constexpr int VECTORS = 36;  // vectors of channels
constexpr bool LOADS_BEFORE_BARRIER = true;  // a thread keeps its filters over a barrier
constexpr int BLOCK_K = 144;  // channels per block

// The kernel's only parameter.
struct Arguments {
    const W* w;  // weights, KRSC
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    float* taps;  // the weights, repacked
};

using XWord = tile::Bfloats;
using WWord = tile::Bfloats;
static_assert(X_SIGNED && W_SIGNED, "floats are signed");

    __device__ __forceinline__ InputPatch(const Source& source, int row, int column, int k)
        : first_row(row * STRIDE_H), first_column(column * STRIDE_W),
          corner(&source.byte[k / X_CHUNK][first_row * Layout::ROW + first_column]
                             [k % X_CHUNK * sizeof(X)]) {}

//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as bfloat16
namespace third {

@@ // The problem.
IN_H=28 IN_W=28 C=144 C_GROUP=144 OUT_H=28 OUT_W=28 K=24 K_GROUP=24 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=144 X_SIGNED=true W_SIGNED=true

@@ // The config.
ATOMS=1 BATCH=1

@@ df36d7f9 in pages/fused-depthwise-pointwise-sm_90a.cu: // What follows.
@@ 3+1
constexpr int ATOM_N = 16;  // channels of one instruction
@@ 8+4
constexpr int CHUNKS = 18;  // chunks of 8 input channels that a slab needs
constexpr int ALL_CHUNKS = 18;
constexpr int UNITS = 18;  // chunks of a slab's reduction
constexpr int STEP_CHUNKS = 4;  // chunks per step, which is an instruction or two
@@ 17+1
constexpr int SOURCE_ROWS = 4;  // input rows that a tile needs
@@ 21+2
constexpr int SOURCE_PLANE = 57;
constexpr int GRID_ROWS = 4;  // output rows of a tile
@@ 24+1
constexpr int GRID_PIXELS = 56;
@@ 28+1

@@ 3f7c3a5f in whole/fused-small-image-sm_90a.cu: // Each block computes one tile. A convolution writes its outputs to shared memory, as bytes, where the next
@@ 4+1
conv2d_conv2d_conv2d(const Arguments args) {
@@ 15+0
    layers.run_second(out_tile);
    layers.await_third();
    tile::barrier();  // the third's input is there
