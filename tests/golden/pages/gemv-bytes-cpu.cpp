// conv2d:n=2:h=1:w=1:c=30:k=10:r=1:s=1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:
//     y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    cpu
// config    gemv pixels=1 channels=2 lanes=4 threads=32
// launch    conv2d_fold<<<10x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_gemv<<<2x1x1, 32, 320 B>>> when: call

@@ // The problem.
IN_H=1 IN_W=1 C=30 C_GROUP=30 OUT_H=1 OUT_W=1 K=10 K_GROUP=10 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=2 REDUCTION=30 X_SIGNED=false W_SIGNED=true

@@ // The config.
constexpr int ROWS = 1;  // output pixels per thread
constexpr int CHANNELS = 2;  // output channels per thread
LANES=4 THREADS=32

@@ // Derived values.
constexpr int WORDS = 1;  // words per vector of a window
constexpr int VECTORS = 8;  // vectors per window
constexpr int OUTPUTS = 16;  // outputs per block
K_BLOCKS=1 SMEM_BYTES=320 FOLD_THREADS=128

template <class T>
__device__ __forceinline__ Vector load_vector(const T* row, int i) {
    Vector vector;
    // Rows whose length is not a multiple of a word are read byte by byte, with zeros past the end.
    vector.word[0] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int at = 4 * i + j;
        const unsigned byte = at < REDUCTION ? static_cast<unsigned char>(tile::load(row + at)) : 0u;
        vector.word[0] |= byte << (8 * j);
    }
    return vector;
}

@@ 35842d89 in pages/gemv-squeeze-sm_90a.cu:     // The output that this thread finishes, and its channel parameters.
@@ 7+4
    const X* const x = args.x;
    inputs.residual = args.residual[index];

@@ 1a6b52ed in pages/gemv-squeeze-sm_90a.cu:     const X* window[ROWS];
@@ 13+1
#pragma unroll 2

@@ ef737457 in pages/simt-body-everything-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+2
extern "C" void conv2d_gemv_entry(const void* args) {
    conv2d_gemv(*static_cast<const Arguments*>(args));
