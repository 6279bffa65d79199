// conv2d:n=1:h=14:w=14:c=64:k=96:r=3:s=3:pad=1,1,1,1:groups=8:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    cpu.sm_80
// config    direct tile_h=8 tile_w=16 slabs=2 warps=4 batch=2 blocks_per_sm=3
// launch    conv2d_fold<<<96x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<30x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_direct<<<4x1x1, 128, 20032 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS=9 CHUNKS=1 SLAB_K=24 ALL_SLABS=4 STEPS=5
constexpr int ATOMS = 3;  // instructions per step
TILES_H=2 TILES_W=1 SLAB_TILES=2 TILES=4 GRID_BLOCKS=4
constexpr int X_BYTES = 16;  // bytes per copy of x
constexpr int VECTOR_K = 8;  // channels per store
COPIES_IN_FLIGHT=3 SMEM_BYTES=20032 FOLD_THREADS=128

@@ 266ad6df in pages/direct-depthwise-sm_90a.cu: // Finishes the outputs and writes them from registers to shared memory.
@@ 14+0
            inputs.x_sum = sums.x_sum[n / 2][d];

@@ 249b6c2b in pages/depthwise-float16-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 8+2
extern "C" void conv2d_direct_entry(const void* args) {
    conv2d_direct(*static_cast<const Arguments*>(args));
