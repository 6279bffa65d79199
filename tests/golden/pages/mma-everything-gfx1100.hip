// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    gfx1100
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 128, 17152 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=16 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=147456 SMEM_BYTES=17152
FOLD_THREADS=128

@@ a43c6b2f in whole/mma-16x16x32-staged-gfx942.hip: // Multiplies one tile over the block's part of the reduction, after `loader.fill`. PIPELINE_STAGES - 1 steps
@@ 22+0
    keep_converged(acc);
