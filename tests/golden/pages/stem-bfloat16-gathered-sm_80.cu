// conv2d:n=8:h=224:w=225:c=1:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=bfloat16:w_type=bfloat16:
//     out_type=bfloat16:per_channel:bias=float32:activation=relu
//
// target    sm_80
// config    stem tile_h=8 tile_w=16 atoms=4 slabs=2 warps=4 batch=2 blocks_per_sm=2
// launch    conv2d_repack_weights<<<16x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem<<<216x1x1, 128, 6240 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=225 C=1 C_GROUP=1 OUT_H=112 OUT_W=113 K=64 K_GROUP=64 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=101248 REDUCTION=49 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int TILE_H = 8;  // output rows per tile
TILE_W=16
constexpr int ATOMS = 4;  // groups of 8 output channels per warp
constexpr int SLABS = 2;  // slabs of these channels per block
WARPS=4
constexpr int BATCH = 2;  // groups of 16 pixels that a warp computes together
BLOCKS_PER_SM=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS_OF_WORD=2 PIXEL_WORDS=1 ROW_WORDS=4
constexpr int STEPS = 4;  // steps of eight words of a filter
SLAB_K=32 ALL_SLABS=2 TILES_H=14 TILES_W=8 SLAB_TILES=1 TILES=896 GRID_BLOCKS=216 SMEM_BYTES=6240

@@ 6f8364a8 in pages/stem-float16-sm_90a.cu: // The input of a block's tile: PIXEL_WORDS words per pixel, with the pixel's channels and, of one channel of
@@ 11+3
constexpr int PITCH = IN_COLUMNS * PIXEL_WORDS;

__device__ __forceinline__ Vector load_vector(const Arguments& args, const Tile& tile, int i) {
    const int row = tile.row * STRIDE_H - PAD_TOP + i / PITCH;
    const int first = tile.column * STRIDE_W - PAD_LEFT + i % PITCH / PIXEL_WORDS;
    Vector vector = {};
#pragma unroll
    for (int j = 0; j < PER_WORD; ++j) {
        const int column = first + j / CHANNELS_OF_WORD * DILATION_W;
        const int c = i % PITCH % PIXEL_WORDS * PER_WORD + j % CHANNELS_OF_WORD;
        if (static_cast<unsigned>(row) >= IN_H || static_cast<unsigned>(column) >= IN_W || c >= C) continue;
        const X* const from = args.x + (((tile.n * IN_H + row) * IN_W + column) * C + c);
        vector.word |= static_cast<unsigned>(tile::load(reinterpret_cast<const Bits*>(from))) << (BITS * j);
    }
    return vector;
}
