// conv2d:n=8:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu+conv2d:n=8:h=56:w=56:c=144:k=24:r=1:s=1:
//     x_type=float16:w_type=float16:out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    fused tile_h=4 tile_w=14 warps=4 blocks_per_sm=4 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=0 first_m=2 first_n=1 second_m=2 second_n=4
// launch    first_repack_weights<<<11x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<20x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<448x1x1, 128, 16416 B>>> when: call

@@ 0ed6b2a4 in whole/fused-small-image-sm_90a.cu: // The config.
@@ 4+1
constexpr int BLOCKS_PER_SM = 4;  // resident blocks per multiprocessor

@@ a5fda853 in pages/fused-depthwise-pointwise-sm_90a.cu: // What follows.
@@ 5+1
constexpr int TILES_H = 14;  // tiles down an image
@@ 7+2
constexpr int TILES = 448;  // tiles of all images
constexpr int GRID_TEAMS = 448;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 18+5
constexpr int MID_CHUNKS = 18;  // chunks of 8 channels that a block needs
constexpr int MID_SMEM_CHUNKS = 18;  // chunks in shared memory
constexpr int MID_PLANE = 57;  // pixels of a chunk
[[maybe_unused]] constexpr int PART_CHUNKS = 18;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 16416;

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=1 OUT_H=56 OUT_W=56 K=144 K_GROUP=1 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=25088 REDUCTION=9 X_SIGNED=true W_SIGNED=true

@@ 62eb327e in whole/fused-small-image-sm_90a.cu: // What follows.
@@ 2+4
constexpr int WORDS = 3;  // taps per filter row, each a word
constexpr int VECTORS = 36;  // vectors of channels
constexpr bool LOADS_BEFORE_BARRIER = false;  // a thread keeps its filters over a barrier
constexpr int BLOCK_K = 144;  // channels per block

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 5+3
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    float* taps;  // the weights, repacked

@@ 0f2fe294 in whole/fused-small-image-sm_90a.cu: // Brings the next tile's input into the L2 cache.
@@ 4+1
    constexpr int PIXEL = C * sizeof(X), LINE = 128;
    constexpr int LINES = (SOURCE_COLUMNS * PIXEL + LINE - 1) / LINE + 1;
@@ 6+1
    const int first_byte = (out_tile.mid_column() * STRIDE_W - PAD_LEFT) * PIXEL;
    const auto* const image = reinterpret_cast<const unsigned char*>(args.x + out_tile.n * (IN_H * IN_W * C));
@@ 10+2
        if (row >= IN_H || byte >= IN_W * PIXEL) continue;
        tile::prefetch_l2(image + (row * (IN_W * PIXEL) + byte));

@@ // The problem.
IN_H=56 IN_W=56 C=144 C_GROUP=144 OUT_H=56 OUT_W=56 K=24 K_GROUP=24 R=1 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=25088 REDUCTION=144 X_SIGNED=true W_SIGNED=true

@@ 541d2ab7 in pages/fused-float16-sm_90a.cu: // What follows.
@@ 5+2
constexpr int ALL_SLABS = 1;
constexpr int BLOCK_SLABS = 1;  // slabs per block
@@ 8+3
constexpr int CHUNKS = 18;  // chunks of 8 input channels that a slab needs
constexpr int ALL_CHUNKS = 18;
constexpr int UNITS = 18;  // chunks of a slab's reduction
@@ 12+1
constexpr int STEPS = 9;  // along the reduction
@@ 15+1
constexpr int UNROLL = 3;  // steps that are written out
@@ 25+6
@@ 32+1
constexpr bool HAS_K_REMAINDER = true;  // the last slab has channels that do not exist
constexpr int VECTOR_K = 8;  // channels per write
