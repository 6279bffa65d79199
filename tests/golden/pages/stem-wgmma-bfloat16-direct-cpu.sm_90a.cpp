// conv2d:n=8:h=224:w=224:c=4:k=21:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=bfloat16:w_type=bfloat16:
//     out_type=float32:per_channel:bias=float32:activation=relu
//
// target    cpu.sm_90a
// config    stem_wgmma rows=4 consumers=2 team=4
// launch    conv2d_repack_weights<<<56x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem_wgmma<<<4x1x1, 384, 27904 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=4 C_GROUP=4 OUT_H=112 OUT_W=112 K=21 K_GROUP=21 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=100352 REDUCTION=196 X_SIGNED=true W_SIGNED=true

@@ // The config.
TILE_H=4 CONSUMERS=2 TEAM=4

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 32;  // output pixels of a tile
BEFORE_H=3 BEFORE_W=4 SKIPPED=0 TAPS_H=7 ROW_STEPS=2 CELLS_H=13 CELLS_W=11 IMAGE_BYTES=176 IMAGE_SHIFT=0
IMAGES=8 TILES_DOWN=28 TILES_ACROSS=14 CHANNEL_TILES=1 TILES=3136 BLOCKS=4 WEIGHT_ROWS=64
constexpr int VECTOR_K = 1;  // channels that a lane writes at once
SMEM_BYTES=27904

using X = unsigned short;
using W = unsigned short;
using Sum = float;
using Output = float;

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    int* fragments;  // the filters as the lanes of a consumer hold them
    tile::TensorMap image_map;  // of x

@@ 8f996eef in pages/wgmma-float8-cpu.sm_90a.cpp: constexpr bool PIXEL_ROWS = false;  // A is of pixels, B of weights
@@ 5+2
    using A = tile::Bfloats;
    using B = tile::Bfloats;

@@ 0dbfaf73 in shared.cpp: // Returns what the instruction keeps of a sum: the lowest LOST_BITS bits of its fraction are cut off.
@@ 10+0
extern "C" void qconv_cpu_barrier_of_team(int team, int threads, int line);

@@ f2a3c556 in pages/stem-pool-odd-cpu.sm_90a.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+2
extern "C" void conv2d_stem_wgmma_entry(const void* args) {
    conv2d_stem_wgmma(*static_cast<const Arguments*>(args));
