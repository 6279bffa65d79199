// conv2d:n=2:h=9:w=5:c=21:k=33:r=2:s=5:stride=1,2:dilation=2,1:pad=0,2,1,2:groups=3:x_type=int8:
//     w_type=uint8:out_type=float16:x_zero_point:bias=float32:activation=relu
//
// target    gfx1100
// config    simt tile_m=16 tile_n=4 tile_k=32 thread_m=1 thread_n=1 pipeline_stages=2
// launch    conv2d_fold<<<33x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<3x9x1, 64, 1792 B>>> when: call

@@ // The problem.
IN_H=9 IN_W=5 C=21 C_GROUP=7 OUT_H=8 OUT_W=3 K=33 K_GROUP=11 S=5 STRIDE_H=1 STRIDE_W=2 DILATION_H=2
DILATION_W=1 PAD_TOP=0 PAD_LEFT=2 PADDED=true PIXELS=48 REDUCTION=70 X_SIGNED=true W_SIGNED=false

@@ // Derived values.
THREADS=64 STEPS=3 TILES_N=3 VECTOR_M=1
constexpr int VECTOR_N = 1;  // neighbouring channels per access
constexpr int X_BYTES = 1;  // bytes per load of x; below a word, one element
X_RUNS=2
constexpr int W_BYTES = 1;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=1792 FOLD_THREADS=128
