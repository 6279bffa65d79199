// conv2d:n=8:h=28:w=28:c=128:k=256:r=2:s=2:pad=1,1,1,1:pixel_shuffle=2,2:crop=1,1,1,1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_80
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=4
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<424x1x1, 128, 33280 B>>> when: call

@@ // The config.
TILE_M=64 TILE_N=64 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=4

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=8 HAS_REDUCTION_REMAINDER=false
TILES_M=106 TILES_N=4 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=33280

@@ 518cb2b9 in whole/mma-body-sm_90a.cu:     // Loads the first steps of a tile part. The weights come first: they do not depend on the previous
@@ 14+1

@@ e6a7e429 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ void write_vector(
@@ 4+8
    static_assert(WHOLE_VECTORS, "a vector must lie in one pixel of the output");
    write_shuffled<VECTOR_N, false>(args.y, shuffled_pixel(pixel), k, k_end, outputs.element);
