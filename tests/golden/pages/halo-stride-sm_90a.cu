// conv2d:n=8:h=28:w=28:c=80:k=64:r=3:s=3:stride=2,2:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_repack_weights<<<90x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<16x1x1, 512, 231424 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=80 C_GROUP=80 OUT_H=14 OUT_W=14 K=64 K_GROUP=64 R=3 S=3 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=1568 REDUCTION=720 X_SIGNED=true W_SIGNED=true

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=80 OWN_ROWS=14 TAP_BYTES=80 WINDOW_H=29 WINDOW_W=9 ROW_STEP=1 WINDOWS_PER_TILE=2
WINDOWS_ACROSS=2 ROW=128 LAST_ROW=96 SLABS=1 SLOTS=4 RELEASES=1 TILES_DOWN=1 TILES_ACROSS=2 CHANNEL_TILES=1
TILES=16 BLOCKS=16 WEIGHT_ROWS=64 SMEM_BYTES=231424
