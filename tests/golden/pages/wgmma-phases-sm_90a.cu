// conv2d:n=8:h=28:w=28:c=128:k=256:r=2:s=2:pad=1,1,1,1:pixel_shuffle=2,2:crop=1,1,1,1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    wgmma consumers=2 split_pixels=0 pixels=192 weight_slots=3 lag=2
// launch    conv2d_repack_weights<<<256x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<36x1x1, 384, 222208 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 4;  // slabs per tile: all taps of each 128 channels
PIXEL_RINGS=1 WEIGHT_RINGS=2 PIXEL_SLOTS=5 CHANNEL_TILES=1 TILES=36 BLOCKS=36
constexpr int WEIGHT_ROWS = 256;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 SMEM_BYTES=222208

@@ 0d3f2b92 in whole/wgmma-body-sm_90a.cu: // Finishes and writes a consumer's sums: TILE_N pixels by TILE_M channels from these on. The parameters of a
@@ 23+9
            const ShuffledPixel to = shuffled_pixel(pixel + 8 * atom + e);
            write_shuffled<VECTOR_K, WHOLE_TILES>(args.y, to, k, K, finished);
