// conv2d:n=1:h=14:w=14:c=64:k=96:r=3:s=3:pad=1,1,1,1:groups=8:x_type=int8:w_type=uint8:out_type=float16:
//     x_zero_point:bias=float32:activation=relu
//
// target    sm_120
// config    simt tile_m=16 tile_n=4 tile_k=32 thread_m=1 thread_n=1 pipeline_stages=2
// launch    conv2d_fold<<<96x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<13x24x1, 64, 1792 B>>> when: call

@@ // The problem.
IN_H=14 IN_W=14 C=64 C_GROUP=8 OUT_H=14 OUT_W=14 K=96 K_GROUP=12 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=196 REDUCTION=72 X_SIGNED=true W_SIGNED=false

@@ // The config.
constexpr int TILE_M = 16;  // output pixels per block
constexpr int TILE_N = 4;  // output channels per block
constexpr int TILE_K = 32;  // bytes of the reduction staged at a time
THREAD_M=1 THREAD_N=1
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=64 STEPS=3 TILES_N=3 VECTOR_M=1
constexpr int VECTOR_N = 1;  // neighbouring channels per access
constexpr int X_BYTES = 8;  // bytes per load of x; below a word, one element
X_RUNS=1
constexpr int W_BYTES = 8;  // bytes per load of w; below a word, one element
W_RUNS=1 SMEM_BYTES=1792 FOLD_THREADS=128
