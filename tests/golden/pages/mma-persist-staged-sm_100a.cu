// conv2d:n=32:h=28:w=28:c=512:k=1024:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:
//     activation=relu
//
// target    sm_100a
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=4
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=1 stream_k=0 tile_swizzle_width=8 staged=1
// launch    conv2d_mma<<<148x1x1, 128, 38912 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=512 C_GROUP=512 OUT_H=28 OUT_W=28 K=1024 K_GROUP=1024 R=1 S=1 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=25088 REDUCTION=512 X_SIGNED=true
W_SIGNED=true

@@ // The config.
TILE_M=64 TILE_N=64 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=4 TILE_SWIZZLE_WIDTH=8

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=8 HAS_REDUCTION_REMAINDER=false
TILES_M=392 TILES_N=16 TILES=6272
constexpr int BLOCKS = 148;
X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=38912

    // Tiles that share pixels run at about the same time: all channels of one tile of pixels, then the next.
    __device__ __forceinline__ TilePart(unsigned tile, int begin, int end, int turn)
        : tile(tile), begin(begin), end(end), turn(turn) {
        const unsigned in_group = tile % (TILES_M * TILES_N);
        // TILE_SWIZZLE_WIDTH tiles of pixels run together: weights that do not stay in the cache are then
        // read once for all of them.
        const unsigned first = in_group / (TILE_SWIZZLE_WIDTH * TILES_N) * TILE_SWIZZLE_WIDTH;
        const unsigned width = TILE_SWIZZLE_WIDTH < TILES_M - first ? TILE_SWIZZLE_WIDTH : TILES_M - first;
        const unsigned in_strip = in_group - first * TILES_N;
        const unsigned m = first + in_strip % width, n = in_strip / width;
        group = tile / (TILES_M * TILES_N);
        pixel_tile = m * TILE_M;
        k_tile = group * K_GROUP + n * TILE_N;
        k_end = (group + 1) * K_GROUP;
    }
};

__device__ __forceinline__ Window window_of(unsigned pixel, int group) {
    static_assert(R * S * STRIDE_H * STRIDE_W == 1 && PAD_TOP + PAD_LEFT == 0,
                  "there must be one tap, at every pixel");
    static_assert(OUT_H == IN_H && OUT_W == IN_W, "outputs must be as many as inputs");
    return {static_cast<int>(pixel) * C + group * C_GROUP, 0, 0};  // a matrix product
}

// An element of a window's reduction: a channel of its only tap.
struct Tap {
    static constexpr int row = 0, column = 0;
    int channel;

    Tap() = default;
    __device__ __forceinline__ explicit Tap(unsigned index) : channel(index) {}

    template <int BY>
    __device__ __forceinline__ void advance() { channel += BY; }

    __device__ __forceinline__ int index() const { return channel; }
    __device__ __forceinline__ bool exists() const { return !HAS_REDUCTION_REMAINDER || channel < C_GROUP; }
    __device__ __forceinline__ int offset() const { return channel; }

@@ 8383292c in whole/mma-body-sm_90a.cu: struct Shared {
@@ 2+1
    ChannelParameters channel_parameters[2];  // this tile's and the next one's
    Staged staged;

@@ 52dce31e in whole/mma-16x16x32-staged-gfx942.hip: // Writes the outputs to shared memory, and from there to device memory in whole rows of 16-byte vectors.
@@ 2+0
// The previous tile is already written: the block has passed a barrier since, to multiply this one.
@@ 4+1

@@ a56f6079 in pages/mma-phases-gfx1100.hip: // Persistent blocks, as many as are resident at a time, each process several tiles: the first steps of the
@@ 5+0
    tile::launch_dependents();
