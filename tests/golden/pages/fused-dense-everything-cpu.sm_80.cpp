// conv2d:n=4:h=28:w=28:c=96:k=96:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=uint8:per_channel:
//     y_zero_point:bias=int32:activation=relu6+conv2d:n=4:h=28:w=28:c=96:k=96:r=3:s=3:pad=1,1,1,1:
//     x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:
//     activation=relu6:residual=int8
//
// target    cpu.sm_80
// config    fused tile_h=8 tile_w=14 warps=4 blocks_per_sm=2 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=0 first_m=2 first_n=2 second_m=1 second_n=2
// launch    first_repack_weights<<<163x1x1, 128, 0 B>>> when: prepare
// launch    second_fold<<<96x1x1, 128, 512 B>>> when: prepare
// launch    second_repack_weights<<<326x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<8x1x1, 128, 36288 B>>> when: call

@@ f93ab159 in pages/fused-slices-sm_90a.cu: // What follows.
@@ 5+4
constexpr int TILES_H = 4;  // tiles down an image
constexpr int TILES_W = 2;  // tiles across an image
constexpr int TILES = 32;  // tiles of all images
constexpr int GRID_TEAMS = 8;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 11+1
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = false;  // some weights are copied asynchronously
@@ 13+1
constexpr bool BY_SLICES = false;  // a block computes the same slice of channels in all layers
@@ 18+2
constexpr int IN_SMEM_CHUNKS = 6;
constexpr int IN_PLANE = 217;
@@ 24+1
constexpr int SMEM_BYTES = 36288;
constexpr int COPIES_IN_FLIGHT = 12;  // of a thread

// What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 16;  // output channels per slab, which is a warp's
constexpr int ALL_SLABS = 6;
constexpr int BLOCK_SLABS = 6;  // slabs per block
constexpr int TAPS = 9;
constexpr int CHUNKS = 6;  // chunks of 16 input channels that a slab needs
constexpr int ALL_CHUNKS = 6;
constexpr int UNITS = 54;  // chunks of a slab's reduction
constexpr int STEP_CHUNKS = 2;  // chunks per step, which is an instruction or two
constexpr int STEPS = 27;  // along the reduction
constexpr bool WHOLE_TAPS = true;  // no step reads chunks of two taps
[[maybe_unused]] constexpr bool IS_ROLLED = true;  // the loop over steps is not written out whole
constexpr int UNROLL = 3;  // steps that are written out
constexpr bool ADDS_WINDOWS = false;  // the sums of windows are needed
constexpr int SOURCE_ROWS = 12;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 18;
[[maybe_unused]] constexpr int SOURCE_ROW = 18;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 217;
constexpr int GRID_ROWS = 10;  // output rows of a tile
constexpr int GRID_COLUMNS = 16;
constexpr int GRID_PIXELS = 160;
constexpr int BORDERED_ROWS = 10;  // those rows and the padding around them
constexpr int BORDERED_COLUMNS = 16;
constexpr int BORDER_TOP = 0;  // rows of padding above
constexpr int BORDER_LEFT = 0;
constexpr bool PADS_OUTSIDE = true;  // pixels outside the image are written as padding
constexpr int WIDTH = 16;  // bytes of the input per load
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist

// Multiplies a slab with BATCH atoms of pixels, in steps that each read chunks of one tap. The weights of the
// next step are loaded while one is multiplied; after the last step of the last slab one more is loaded.
__device__ __forceinline__ void multiply(WeightsAt at, const Windows& windows, Sums& sums) {
    Weights next = at.load();
#pragma unroll 1
    for (int r = 0; r < R; ++r) {
#pragma unroll 1
        for (int s = 0; s < S; ++s) {
            const int row = r * DILATION_H, column = Layout::column(s * DILATION_W);
            const int first = (row * Layout::ROW + column) * 16;
#pragma unroll UNROLL
            for (int chunk = 0; chunk < CHUNKS; chunk += STEP_CHUNKS) {
                const Weights weights = next;
                next = at.load();
                multiply_step(windows, first + chunk * (SOURCE_PLANE * 16), weights, sums);
            }
        }
    }
}

//   acc = sum over r, s, c of (x - x_zero) * (w - w_zero[k]), in int32
//   v   = (acc + bias[k]) * multiplier[k]
//   r   = v + residual * residual_scale
//   y   = clamp(round_half_to_even(relu6(r)) + y_zero) as uint8
namespace second {

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=28 OUT_W=28 K=96 K_GROUP=96 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=3136 REDUCTION=864 X_SIGNED=false W_SIGNED=true

@@ // The config.
constexpr int ATOMS = 2;  // atoms of channels per warp
constexpr int BATCH = 1;  // atoms of pixels per warp, at a time

@@ 2128da00 in pages/fused-dense-everything-cpu.sm_80.cpp: // What follows.
@@ 16+4
constexpr bool ADDS_WINDOWS = true;  // the sums of windows are needed
constexpr int SOURCE_ROWS = 10;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 16;
[[maybe_unused]] constexpr int SOURCE_ROW = 16;  // pixels from a row in shared memory to the next
@@ 21+10
constexpr int SOURCE_PLANE = 161;
constexpr int GRID_ROWS = 8;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 112;
@@ 33+0
constexpr int VECTOR_K = 4;  // channels per write
constexpr int FOLD_THREADS = 128;

@@ 274e85a2 in shared.cu: using X = unsigned char;
@@ 5+0
using Residual = signed char;

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 3+1
@@ 6+0
    const Residual* residual;  // added before the activation, NHWK
@@ 10+0
    int* fragments;  // the weights, repacked
    float residual_scale;  // residual_scale / y_scale

// The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
// thread loads them once for all its outputs of the channel.
struct Channel {
    int offset;
    int w_zero;
    float multiplier;
    float residual_scale;
    float top;
    float y_zero;
};

@@ 7736ea92 in whole/simt-body-sm_90a.cu: // The inputs of an output element, apart from its channel parameters: its sum of products, and what else
@@ 5+0
    Sum x_sum;  // sum of the inputs in the element's window
    int residual;

@@ 0596fc8d in whole/simt-body-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 6+0
    const Sum x_sum = inputs.x_sum;
    const int residual = inputs.residual;
@@ 8+0
    acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);
@@ 10+2
    const float added = static_cast<float>(residual);
    value = tile::add(value, tile::multiply(added, channel.residual_scale));
    value = tile::minimum(tile::maximum(value, 0.0f), channel.top);
    result = tile::rounded(value, channel.y_zero);

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 12+0
        const auto w_zero = tile::load_vector<WIDTH>(args.w_zero + first);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].w_zero = w_zero.element[j];
@@ 16+0
        for (int j = 0; j < WIDTH; ++j) channels[i + j].residual_scale = args.residual_scale;
#pragma unroll
@@ 17+0
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) channels[i + j].y_zero = args.y_zero;

@@ cfa537e4 in shared.cu: __device__ __forceinline__ void finish_pixels(
@@ 14+0
                inputs[j].x_sum = sums.set[1][n][atom][d];

@@ 1ff55538 in pages/fused-depthwise-pointwise-sm_90a.cu: __device__ __forceinline__ void fold(const Arguments& args) {
@@ 15+0
        const int w_zero = tile::load(args.w_zero + k);
        offset = tile::wrapping_add(offset, REDUCTION * args.x_zero * w_zero);

@@ 4d59788c in pages/fused-teams-cpu.sm_90a.cpp: // Entry points: the CPU device calls one per thread.
@@ 4+0
}
extern "C" void second_fold_entry(const void* args) {
    second_fold(*static_cast<const Arguments*>(args));
