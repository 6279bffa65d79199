// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:layout=nchw:x_type=uint8:w_type=int8:
//     out_type=uint8:per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_90a
// config    simt tile_m=64 tile_n=64 tile_k=32 thread_m=4 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<64x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<196x1x1, 256, 10752 B>>> when: call

@@ // Derived values.
THREADS=256 STEPS=5 TILES_N=1 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 1;  // bytes per load of x; below a word, one element
X_RUNS=2 X_PARTS=8
constexpr int W_BYTES = 1;  // bytes per load of w; below a word, one element
W_RUNS=2 SMEM_BYTES=10752 FOLD_THREADS=128

@@ // NCHW: neighbouring elements are pixels, and the reduction runs over the filter's columns first.
CHANNELS_LAST=false

@@ 4b6d8dbb in whole/simt-body-sm_90a.cu: __device__ __forceinline__ Window window_of(const Arguments& args, int pixel, int group) {
@@ 6+1
    return {args.x + (at / (OUT_H * OUT_W) * C + group * C_GROUP) * (IN_H * IN_W),

// Returns the place of element `index` of a window's reduction (channel, filter row, filter column; columns
// fastest, as the weights are stored).
__device__ __forceinline__ Place locate(const Window& window, int index) {
    const int tap = index % (R * S);
    const int row = window.row + tap / S * DILATION_H;
    const int column = window.column + tap % S * DILATION_W;
    const bool inside = !PADDED || (row >= 0 && row < IN_H && column >= 0 && column < IN_W);
    return {(index / (R * S) * IN_H + row) * IN_W + column, inside};
}

__device__ __forceinline__ int output_index(int pixel, int k) {
    return (pixel / (OUT_H * OUT_W) * K + k) * (OUT_H * OUT_W) + pixel % (OUT_H * OUT_W);
}

// A thread's vectors of x: neighbouring threads load neighbouring pixels.
struct XRun {
    static constexpr int WIDTH = 4;
    static constexpr int PER_ROW = TILE_K / WIDTH;
    int row, byte;
    __device__ __forceinline__ explicit XRun(int i)
        : row((tile::thread() + i * THREADS) % TILE_M),
          byte((tile::thread() + i * THREADS) / TILE_M * WIDTH) {}
    __device__ __forceinline__ bool is_in_tile() const { return byte < TILE_K; }
};

// This thread's first pixel and first channel in the tile: neighbouring threads write neighbouring pixels.
__device__ __forceinline__ int first_pixel() { return tile::thread() % (TILE_M / THREAD_M) * VECTOR_M; }
__device__ __forceinline__ int first_channel() { return tile::thread() / (TILE_M / THREAD_M) * VECTOR_N; }
