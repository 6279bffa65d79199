// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=tfloat32:w_type=tfloat32:out_type=float32:
//     per_channel:bias=float32:activation=relu
//
// target    sm_80
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=72 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=4 SMEM_BYTES=16896

@@ 8ccdf8e7 in shared.cu: // Computes D += A * B, by one warp.
@@ 4+1
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
