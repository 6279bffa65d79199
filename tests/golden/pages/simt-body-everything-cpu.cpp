// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    cpu
// config    simt tile_m=128 tile_n=64 tile_k=64 thread_m=8 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<49x2x1, 256, 27648 B>>> when: call

@@ // Derived values.
THREADS=256 STEPS=18 TILES_N=2 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 16;  // bytes per load of x; below a word, one element
X_RUNS=2 X_PARTS=4
constexpr int W_BYTES = 16;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=27648 FOLD_THREADS=128

// Entry points: the CPU device calls one per thread.
extern "C" void conv2d_fold_entry(const void* args) {
    conv2d_fold(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_simt_entry(const void* args) {
    conv2d_simt(*static_cast<const Arguments*>(args));
}
