// conv2d:n=2:h=9:w=5:c=21:k=33:r=2:s=5:stride=1,2:dilation=2,1:pad=0,2,1,2:groups=3:x_type=uint8:
//     w_type=uint8:out_type=int32:x_zero_point:w_zero_point
//
// target    cpu
// config    simt tile_m=64 tile_n=16 tile_k=32 thread_m=4 thread_n=8 pipeline_stages=2
// launch    conv2d_fold<<<33x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<1x3x1, 32, 7680 B>>> when: call

@@ // The problem.
IN_H=9 IN_W=5 C=21 C_GROUP=7 OUT_H=8 OUT_W=3 K=33 K_GROUP=11 S=5 STRIDE_H=1 STRIDE_W=2 DILATION_H=2
DILATION_W=1 PAD_TOP=0 PAD_LEFT=2 PADDED=true PIXELS=48 REDUCTION=70 X_SIGNED=false W_SIGNED=false

@@ // The config.
constexpr int TILE_M = 64;  // output pixels per block
constexpr int TILE_N = 16;  // output channels per block
constexpr int TILE_K = 32;  // bytes of the reduction staged at a time
THREAD_M=4 THREAD_N=8
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=32 STEPS=3 TILES_N=1 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 1;  // bytes per load of x; below a word, one element
X_RUNS=16 X_PARTS=8
constexpr int W_BYTES = 1;  // bytes per load of w; below a word, one element
W_RUNS=4 SMEM_BYTES=7680 FOLD_THREADS=128
