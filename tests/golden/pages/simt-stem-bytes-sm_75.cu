// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8
//
// target    sm_75
// config    simt tile_m=64 tile_n=64 tile_k=32 thread_m=4 thread_n=4 pipeline_stages=2
// launch    conv2d_simt<<<196x1x1, 256, 8704 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=3 C_GROUP=3 OUT_H=112 OUT_W=112 K=64 K_GROUP=64 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=12544 REDUCTION=147 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int TILE_M = 64;  // output pixels per block
constexpr int TILE_N = 64;  // output channels per block
constexpr int TILE_K = 32;  // bytes of the reduction staged at a time
THREAD_M=4 THREAD_N=4
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=256 STEPS=5 TILES_N=1 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 1;  // bytes per load of x; below a word, one element
X_RUNS=2
constexpr int W_BYTES = 1;  // bytes per load of w; below a word, one element
W_RUNS=2 SMEM_BYTES=8704
