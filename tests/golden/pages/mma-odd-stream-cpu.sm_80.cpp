// conv2d:n=2:h=9:w=5:c=21:k=33:r=2:s=5:stride=1,2:dilation=2,1:pad=0,2,1,2:groups=3:x_type=uint8:
//     w_type=int8:out_type=uint8:per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:
//     activation=relu6
//
// target    cpu.sm_80
// config    mma instruction=0 tile_m=32 tile_n=16 tile_k=32 warp_m=16 warp_n=16 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=1 stream_k=1 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<33x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<4x1x1, 64, 3472 B>>> when: call

@@ // The problem.
IN_H=9 IN_W=5 C=21 C_GROUP=7 OUT_H=8 OUT_W=3 K=33 K_GROUP=11 R=2 S=5 STRIDE_H=1 STRIDE_W=2 DILATION_H=2
DILATION_W=1 PAD_TOP=0 PAD_LEFT=2 PADDED=true PIXELS=48 REDUCTION=70 X_SIGNED=false W_SIGNED=true

@@ // The config.
TILE_M=32 TILE_N=16 TILE_K=32 WARP_M=16 WARP_N=16 PIPELINE_STAGES=2

@@ // Derived values.
WARP_SIZE=32 THREADS=64 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=3 HAS_REDUCTION_REMAINDER=true TILES_M=2
TILES_N=1 TILES=6
constexpr int BLOCKS = 4;
X_BYTES=1 W_BYTES=1 VECTOR_N=1 COPIES_IN_FLIGHT=15 SMEM_BYTES=3472 FOLD_THREADS=128

// Adds atomically, without ordering. Some launches make the sum visible to other blocks at once, and others
// only when this thread calls `publish`.
__device__ __forceinline__ void accumulate(int* address, int value) {
    if (qconv_cpu_defers_copies() != 0) qconv_cpu_add(address, value);
    else __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

// Adds `by` to the counter and returns its previous value. This thread's earlier writes are visible to later
// arrivals, and it sees the writes of earlier ones.
__device__ __forceinline__ int arrive(int* counter, int by) {
    return __atomic_fetch_add(counter, by, __ATOMIC_ACQ_REL);
}

// Every thread calls this before one of them arrives for all. As on AMD GPUs, a barrier orders shared memory
// only.
__device__ __forceinline__ void publish() { qconv_cpu_publish(); }

// Returns the value and leaves 0 for the next launch.
__device__ __forceinline__ int take(int* address) {
    return __atomic_exchange_n(address, 0, __ATOMIC_RELAXED);
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 10+0
    Sum* sums;  // sums of the tiles that several blocks share
    int* arrived;  // steps added so far to each of these tiles

@@ ef737457 in pages/simt-body-everything-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 5+2
extern "C" void conv2d_mma_entry(const void* args) {
    conv2d_mma(*static_cast<const Arguments*>(args));
