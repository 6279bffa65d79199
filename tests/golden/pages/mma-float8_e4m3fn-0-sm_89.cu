// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu
//
//   acc = sum over r, s, c of x * w, in float32, in the kernel's own order
//   y   = relu((acc + bias[k]) * multiplier[k]), saturated, as float8_e4m3fn
//
// target    sm_89
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 16896 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=16896

@@ 8865d045 in shared.cu: using X = unsigned char;
@@ 5+1

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)

@@ f91549db in shared.cu: // Computes D += A * B, by one warp.
@@ 4+1
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
