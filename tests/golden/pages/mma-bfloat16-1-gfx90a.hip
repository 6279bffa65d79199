// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=bfloat16:w_type=bfloat16:out_type=bfloat16:
//     per_channel:bias=float32:activation=relu
//
// target    gfx90a
// config    mma instruction=1 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 256, 16896 B>>> when: call
