// conv2d_pool:n=1:h=224:w=224:c=4:k=48:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu:window=3,3:window_stride=2,2
//
// target    cpu.sm_90a
// config    stem_pool windows=4 team=4
// launch    conv2d_repack_weights<<<32x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem_pool<<<4x1x1, 384, 52224 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=4 C_GROUP=4 OUT_H=111 OUT_W=118 K=48 K_GROUP=48 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=17 PADDED=true PIXELS=13098 REDUCTION=196 X_SIGNED=true W_SIGNED=true

@@ // The pool. The problem has its padding as well, as outputs of the convolution.
constexpr int WINDOW_H = 3;
constexpr int WINDOW_W = 3;
BEFORE_ROWS=0 BEFORE_COLUMNS=7 CONVOLUTION_H=112 CONVOLUTION_W=112 FIRST_COLUMN=-4 STRIPS=14

@@ // The config.
WINDOWS_DOWN=4
constexpr int TILE_H = 10;  // rows of sums of a tile, which is eight pixels wide
constexpr int CONSUMERS = 2;  // warpgroups that multiply, every second tile each
TEAM=4

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 80;  // output pixels of a tile
BEFORE_H=4 BEFORE_W=20 SKIPPED=1 TAPS_H=4 ROW_STEPS=2 CELLS_H=13 CELLS_W=12 IMAGE_BYTES=96 IMAGE_SHIFT=0
IMAGES=8 TILES_DOWN=14 TILES_ACROSS=15 CHANNEL_TILES=1 TILES=210 BLOCKS=4 WEIGHT_ROWS=64 SMEM_BYTES=52224

@@ e6b83a07 in whole/halo-body-sm_90a.cu: // Stores the part of the tile that is inside the array: one thread, after the proxy fences of the threads
@@ 5+7
    const TensorMap& map, const void* from, int c0, int c1, int c2, int c3, int line = __builtin_LINE()) {
    const int coordinates[] = {c0, c1, c2, c3};
    qconv_cpu_store_tensor(&map, coordinates, from, line);

// Closes a group: the thread's stores since the last commit.
__device__ __forceinline__ void commit_stores() { qconv_cpu_commit_stores(); }
// Waits until all but the latest GROUPS groups have read their tiles.
template <int GROUPS>
__device__ __forceinline__ void wait_for_store_reads() { qconv_cpu_wait_for_stores(GROUPS); }

// stmatrix, transposed: stores COUNT matrices of 8 rows x 8 pairs of bytes. Lane 8 * i + j supplies the
// address of row j of matrix i, and writes that row here. Each lane has pair lane / 4 of two rows of each
// matrix: row 2 * (lane % 4) in the lower half of its word, and row 2 * (lane % 4) + 1 in the upper.
template <int COUNT>
__device__ __forceinline__ void store_matrices(
    void* row, const unsigned (&words)[COUNT], int line = __builtin_LINE()) {
    static_assert(WARP_SIZE == 32 && (COUNT == 2 || COUNT == 4), "stmatrix stores 2 or 4 matrices here");
    const auto* const deposits = static_cast<const char*>(qconv_cpu_warp_exchange(words, sizeof words, line));
    const int matrix = lane() / 8, half = lane() % 2;
    if (matrix >= COUNT) return;
    if (reinterpret_cast<unsigned long>(row) % 16 != 0)
        qconv_cpu_fail("store_matrices to a row that is not 16-byte aligned", line);
    for (int pair = 0; pair < 8; ++pair) {
        const char* const word = deposits + 64 * (4 * pair + lane() % 8 / 2) + 4 * matrix;
        __builtin_memcpy(static_cast<char*>(row) + 2 * pair, word + 2 * half, 2);
    }
}

// Entry points: the CPU device calls one per thread.
extern "C" void conv2d_repack_weights_entry(const void* args) {
    conv2d_repack_weights(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_stem_pool_entry(const void* args) {
    conv2d_stem_pool(*static_cast<const Arguments*>(args));
}
