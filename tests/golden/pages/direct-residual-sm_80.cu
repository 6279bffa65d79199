// conv2d:n=1:h=14:w=14:c=64:k=96:r=3:s=3:pad=1,1,1,1:groups=8:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_80
// config    direct tile_h=8 tile_w=16 slabs=2 warps=4 batch=2 blocks_per_sm=3
// launch    conv2d_fold<<<96x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<30x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_direct<<<4x1x1, 128, 20032 B>>> when: call

@@ // The problem.
IN_H=14 IN_W=14 C=64 C_GROUP=8 OUT_H=14 OUT_W=14 K=96 K_GROUP=12 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=196 REDUCTION=72 X_SIGNED=false W_SIGNED=true

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS=9 CHUNKS=1 SLAB_K=24 ALL_SLABS=4 STEPS=5
constexpr int ATOMS = 3;  // instructions per step
TILES_H=2 TILES_W=1 SLAB_TILES=2 TILES=4 GRID_BLOCKS=4
constexpr int X_BYTES = 16;  // bytes per copy of x
constexpr int VECTOR_K = 8;  // channels per store
SMEM_BYTES=20032 FOLD_THREADS=128

template <int BYTES>
__device__ __forceinline__ void fill(void* to, unsigned word) {
    Words<BYTES / 4> words;
    for (unsigned& each : words.word) each = word;
    *static_cast<Words<BYTES / 4>*>(to) = words;
}

@@ 5f3a7f90 in pages/direct-depthwise-sm_90a.cu: // Loads a tile of the input; each byte is copied to shared memory once.
@@ 15+0
        if (!is_inside) {
            tile::fill<X_BYTES>(to, padding_word(args));
            continue;
        }

@@ 266ad6df in pages/direct-depthwise-sm_90a.cu: // Finishes the outputs and writes them from registers to shared memory.
@@ 9+0
        const int row = tile.row + position.row + i * ROWS_ON;
        const int column = tile.column + position.column + i * COLUMNS_ON;
        const bool is_written = row < OUT_H && column < OUT_W;
        const int index = ((tile.n * OUT_H + row) * OUT_W + column) * K + tile.slab * SLAB_K + k;
@@ 14+0
            const bool exists = is_written && tile.slab * SLAB_K + k + n < K;
            inputs.residual = exists ? args.residual[index + n] : 0;

@@ 43afd75e in pages/direct-depthwise-sm_90a.cu: // Persistent blocks, as many as are resident at a time, each process several tiles. The input of a tile loads
@@ 10+2
