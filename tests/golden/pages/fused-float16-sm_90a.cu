// conv2d:n=8:h=28:w=28:c=128:k=512:r=1:s=1:x_type=float16:w_type=float16:out_type=float16:per_channel:
//     bias=float32:activation=relu+conv2d:n=8:h=28:w=28:c=512:k=128:r=1:s=1:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
//   y = second(first(x, w1), w2); float16 between the two, in shared memory; the math of each is with it
//
// target    sm_90a
// config    fused tile_h=4 tile_w=14 warps=8 blocks_per_sm=1 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=0 first_m=2 first_n=4 second_m=2 second_n=4
// launch    first_repack_weights<<<258x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<258x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<112x1x1, 256, 72960 B>>> when: call

// What follows.
constexpr int WARP_SIZE = 32;
constexpr int THREADS = 256;  // threads per team
[[maybe_unused]] constexpr int BLOCK_THREADS = 256;
constexpr int TILES_H = 7;  // tiles down an image
constexpr int TILES_W = 2;  // tiles across an image
constexpr int TILES = 112;  // tiles of all images
constexpr int GRID_TEAMS = 112;  // teams in the grid; each computes every GRID_TEAMS-th tile
constexpr bool LOADS_INPUT = true;  // the input is loaded to shared memory
constexpr bool LOADS_ASYNC = true;  // by asynchronous copies
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = false;  // some weights are copied asynchronously
constexpr bool WEIGHTS_BEHIND_INPUT = false;  // the last ones after the input
constexpr bool BY_SLICES = false;  // a block computes the same slice of channels in all layers
constexpr int MID_STRIDE_H = 1;
constexpr int MID_STRIDE_W = 1;
constexpr int MID_PAD_TOP = 0;
constexpr int MID_PAD_LEFT = 0;
constexpr int IN_SMEM_CHUNKS = 16;
constexpr int IN_PLANE = 57;
constexpr int MID_CHUNKS = 64;  // chunks of 8 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 64;  // chunks in shared memory
constexpr int MID_PLANE = 57;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 64;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 72960;

//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as float16
namespace first {

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=28 OUT_W=28 K=512 K_GROUP=512 R=1 S=1 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=128 X_SIGNED=true
W_SIGNED=true

// What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 32;  // output channels per slab, which is a warp's
constexpr int ALL_SLABS = 16;
constexpr int BLOCK_SLABS = 16;  // slabs per block
constexpr int TAPS = 1;
constexpr int CHUNKS = 16;  // chunks of 8 input channels that a slab needs
constexpr int ALL_CHUNKS = 16;
constexpr int UNITS = 16;  // chunks of a slab's reduction
constexpr int STEP_CHUNKS = 2;  // chunks per step, which is an instruction or two
constexpr int STEPS = 8;  // along the reduction
constexpr bool WHOLE_TAPS = true;  // no step reads chunks of two taps
[[maybe_unused]] constexpr bool IS_ROLLED = true;  // the loop over steps is not written out whole
constexpr int UNROLL = 4;  // steps that are written out
constexpr bool ADDS_WINDOWS = false;  // the sums of windows are needed
constexpr int SOURCE_ROWS = 4;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 14;
[[maybe_unused]] constexpr int SOURCE_ROW = 14;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 57;
constexpr int GRID_ROWS = 4;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 56;
constexpr int BORDERED_ROWS = 4;  // those rows and the padding around them
constexpr int BORDERED_COLUMNS = 14;
constexpr int BORDER_TOP = 0;  // rows of padding above
constexpr int BORDER_LEFT = 0;
constexpr bool PADS_OUTSIDE = false;  // pixels outside the image are written as padding
constexpr int WIDTH = 16;  // bytes of the input per load
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist

//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), as float16
namespace second {

@@ // The problem.
IN_H=28 IN_W=28 C=512 C_GROUP=512 OUT_H=28 OUT_W=28 K=128 K_GROUP=128 R=1 S=1 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=512 X_SIGNED=true
W_SIGNED=true

@@ 541d2ab7 in pages/fused-float16-sm_90a.cu: // What follows.
@@ 5+2
constexpr int ALL_SLABS = 4;
constexpr int BLOCK_SLABS = 4;  // slabs per block
@@ 8+3
constexpr int CHUNKS = 64;  // chunks of 8 input channels that a slab needs
constexpr int ALL_CHUNKS = 64;
constexpr int UNITS = 64;  // chunks of a slab's reduction
@@ 12+1
constexpr int STEPS = 32;  // along the reduction
@@ 25+6
@@ 33+0
constexpr int VECTOR_K = 8;  // channels per write
