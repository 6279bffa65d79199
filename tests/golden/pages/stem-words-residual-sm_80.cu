// conv2d:n=1:h=224:w=222:c=1:k=64:r=5:s=20:stride=2,2:pad=3,3,3,3:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_80
// config    stem tile_h=16 tile_w=8 atoms=2 slabs=2 warps=4 batch=2 blocks_per_sm=2
// launch    conv2d_fold<<<64x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<16x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem<<<216x1x1, 128, 8704 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=222 C=1 C_GROUP=1 OUT_H=113 OUT_W=105 K=64 K_GROUP=64 R=5 S=20 STRIDE_H=2 STRIDE_W=2
DILATION_H=1 DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=11865 REDUCTION=100 X_SIGNED=false
W_SIGNED=true

@@ // The config.
constexpr int TILE_H = 16;  // output rows per tile
TILE_W=8
constexpr int ATOMS = 2;  // groups of 8 output channels per warp
constexpr int SLABS = 2;  // slabs of these channels per block
WARPS=4
constexpr int BATCH = 2;  // groups of 16 pixels that a warp computes together
BLOCKS_PER_SM=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS_OF_WORD=4 ROW_WORDS=5
constexpr int STEPS = 4;  // steps of eight words of a filter
SLAB_K=16 ALL_SLABS=4 TILES_H=8 TILES_W=14 SLAB_TILES=2 TILES=224 GRID_BLOCKS=216 SMEM_BYTES=8704
FOLD_THREADS=128

@@ a446d029 in pages/stem-words-sm_90a.cu: // The input of a block's tile: one word per pixel, with the pixel's channels and, if there are fewer than
@@ 6+3
constexpr int PITCH = IN_COLUMNS;

// A word of a pixel. Rows are read element by element if their length is not a multiple of four pixels or the
// taps are not adjacent.
struct Vector { unsigned word; };
constexpr int VECTORS = IN_ROWS * PITCH, VECTORS_OF_THREAD = (VECTORS + THREADS - 1) / THREADS;

__device__ __forceinline__ int shift(const Tile&) { return 0; }

__device__ __forceinline__ Vector load_vector(const Arguments& args, const Tile& tile, int i) {
    const int row = tile.row * STRIDE_H - PAD_TOP + i / PITCH;
    const int first = tile.column * STRIDE_W - PAD_LEFT + i % PITCH;
    Vector vector = {};
#pragma unroll
    for (int j = 0; j < TAPS_OF_WORD * C; ++j) {
        const int column = first + j / C * DILATION_W;
        unsigned byte = padding_word(args) & 0xffu;
        if (static_cast<unsigned>(row) < IN_H && static_cast<unsigned>(column) < IN_W) {
            const X* const from = args.x + (((tile.n * IN_H + row) * IN_W + column) * C + j % C);
            byte = static_cast<unsigned char>(tile::load(from));
        }
        vector.word |= byte << (8 * j);
    }
    return vector;
}

__device__ __forceinline__ void put_vector(Input& input, int i, const Vector& vector) {
    input.word[i / PITCH][i % PITCH] = vector.word;
}

@@ 0025ef3c in pages/stem-words-sm_90a.cu: // Finishes the outputs and writes them from registers to device memory: LANE_K neighbouring channels of two
@@ 17+0
            inputs.residual = k + n < K ? tile::load(args.residual + index + n) : 0;
