// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=uint8:w_type=int8:out_type=uint8:
//     per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    gfx90a
// config    simt tile_m=64 tile_n=64 tile_k=32 thread_m=4 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<64x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<196x1x1, 256, 10752 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=3 C_GROUP=3 OUT_H=112 OUT_W=112 K=64 K_GROUP=64 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=12544 REDUCTION=147 X_SIGNED=false W_SIGNED=true
