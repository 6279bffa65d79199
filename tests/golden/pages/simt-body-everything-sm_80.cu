// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_80
// config    simt tile_m=32 tile_n=32 tile_k=64 thread_m=4 thread_n=4 pipeline_stages=2
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_simt<<<196x4x1, 64, 9728 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=128 OUT_H=28 OUT_W=28 K=128 K_GROUP=128 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=1152 X_SIGNED=false W_SIGNED=true

@@ // The config.
constexpr int TILE_M = 32;  // output pixels per block
constexpr int TILE_N = 32;  // output channels per block
constexpr int TILE_K = 64;  // bytes of the reduction staged at a time
THREAD_M=4 THREAD_N=4
constexpr int PIPELINE_STAGES = 2;  // 1: in place, two barriers per step; 2: double buffer, one barrier

@@ // Derived values.
THREADS=64 STEPS=18 TILES_N=4 VECTOR_M=4
constexpr int VECTOR_N = 4;  // neighbouring channels per access
constexpr int X_BYTES = 16;  // bytes per load of x; below a word, one element
X_RUNS=2 X_PARTS=4
constexpr int W_BYTES = 16;  // bytes per load of w; below a word, one element
W_RUNS=2 SMEM_BYTES=9728 FOLD_THREADS=128

@@ 6f130776 in whole/simt-body-sm_90a.cu: // Operand tiles, as words of neighbouring elements of the reduction. The padding keeps 16-byte alignment and
@@ 6+0
    unsigned x_sum[X_PARTS][TILE_M];  // partial sums of each window, one per thread that loads a part of it

// Returns an element of padding. Padding is a real zero, which is stored as the zero point.
__device__ __forceinline__ unsigned padding_element([[maybe_unused]] const Arguments& args) {
    return static_cast<Bits>(args.x_zero);
}

// The weight zero point requires the sum of each window. Every word of x passes through one thread on its way
// to shared memory, which adds it up.
__device__ __forceinline__ void add_up(const XRegisters& tile_registers, Sum (&sums)[X_RUNS]) {
#pragma unroll
    for (int i = 0; i < X_RUNS; ++i) {
#pragma unroll
        for (int j = 0; j < X_WORDS; ++j) {
            sums[i] = dot<X_SIGNED, false>(tile_registers.word[i][j], ONES, sums[i]);
        }
    }
}

// Passes the sums of windows from the threads that loaded the parts to those that finish the outputs.
__device__ __forceinline__ void exchange(
    Shared& shared, const Sum (&sums)[X_RUNS], int m, Sum (&x_sum)[THREAD_M]) {
#pragma unroll
    for (int i = 0; i < X_RUNS; ++i) {
        const XRun run(i);
        if (run.row >= TILE_M || run.byte >= TILE_K) continue;
        shared.x_sum[run.byte / XRun::WIDTH][run.row] = static_cast<unsigned>(sums[i]);
    }
    tile::barrier();
#pragma unroll
    for (int part = 0; part < X_PARTS; ++part) {
        unsigned parts[THREAD_M];
        get<THREAD_M, VECTOR_M, TILE_M / (THREAD_M / VECTOR_M)>(&shared.x_sum[part][m], parts);
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) x_sum[i] += static_cast<Sum>(parts[i]);
    }
}

@@ dbcff4d5 in whole/simt-body-sm_90a.cu: __device__ __forceinline__ void store(
@@ 3+0
    const Sum (&x_sum)[THREAD_M],
@@ 20+0
                inputs.x_sum = x_sum[i];

@@ 230b399f in whole/simt-body-sm_90a.cu: // Each block computes TILE_M output pixels x TILE_N channels of one group. The next tile of both operands
@@ 11+2
@@ 19+3

@@ 518b7898 in whole/simt-body-sm_90a.cu:     XRegisters x_registers;
@@ 7+0
    Sum x_sums[X_RUNS] = {};
    add_up(x_registers, x_sums);

@@ 420f52ee in whole/simt-body-sm_90a.cu:     Accumulators acc = {};
@@ 14+0
            add_up(x_registers, x_sums);
@@ 17+1
    Sum x_sum[THREAD_M] = {};
    exchange(shared, x_sums, m, x_sum);
    store(args, acc, x_sum, pixel_tile + m, k_tile + n, k_end);
