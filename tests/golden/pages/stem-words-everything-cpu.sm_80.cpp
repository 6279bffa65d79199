// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    cpu.sm_80
// config    stem tile_h=16 tile_w=16 atoms=2 slabs=2 warps=4 batch=1 blocks_per_sm=4
// launch    conv2d_fold<<<64x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<28x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem<<<16x1x1, 128, 13024 B>>> when: call

@@ // The config.
constexpr int TILE_H = 16;  // output rows per tile
TILE_W=16
constexpr int ATOMS = 2;  // groups of 8 output channels per warp
constexpr int SLABS = 2;  // slabs of these channels per block
WARPS=4 BATCH=1 BLOCKS_PER_SM=4

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS_OF_WORD=1 ROW_WORDS=8
constexpr int STEPS = 7;  // steps of eight words of a filter
SLAB_K=16 ALL_SLABS=4 TILES_H=7 TILES_W=7 SLAB_TILES=2 TILES=98 GRID_BLOCKS=16 SMEM_BYTES=13024
FOLD_THREADS=128

@@ 0025ef3c in pages/stem-words-sm_90a.cu: // Finishes the outputs and writes them from registers to device memory: LANE_K neighbouring channels of two
@@ 17+0
            inputs.x_sum = sums.x_sum[n / 2][d];

@@ 249b6c2b in pages/depthwise-float16-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 8+2
extern "C" void conv2d_stem_entry(const void* args) {
    conv2d_stem(*static_cast<const Arguments*>(args));
