// conv2d:n=1:h=28:w=28:c=80:k=21:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=uint8:out_type=float16:x_zero_point:
//     bias=float32:activation=relu
//
// target    cpu.sm_100a
// config    tcgen05 pixels=128 channels=32 writers=1 slab=128 slots=3
// launch    conv2d_fold<<<21x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_tcgen05<<<4x1x1, 192, 62464 B>>> when: call

@@ // The config.
TILE_M=128 TILE_N=32 WRITERS=1
constexpr int SLOTS = 3;  // slots of the ring of slabs

@@ // Derived values.
WARP_SIZE=32 THREADS=192 SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
constexpr int COLUMNS = 64;  // allocated columns of tensor memory
CHANNEL_TILES=1 TILES=7 BLOCKS=4
constexpr int VECTOR_K = 1;  // neighbouring outputs that a thread writes at once
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=62464
FOLD_THREADS=128

__device__ __forceinline__ int uniform_warp() { return warp(); }

// Returns true for the one thread of its warp that acts for all lanes. All lanes must call it together.
__device__ __forceinline__ bool elected(int line = __builtin_LINE()) {
    warp_barrier(line);
    return lane() == 0;
}

// Returns the address of an object in shared memory, in the form that matrix descriptors take.
__device__ __forceinline__ unsigned shared_offset(const void* object) {
    return static_cast<unsigned>(static_cast<const char*>(object) - static_cast<char*>(qconv_cpu_shared()));
}

// A thread that uses tensor memory and synchronises with others that do calls these: the first before it
// arrives, the second after it has waited.
__device__ __forceinline__ void fence_before_thread_sync() { qconv_cpu_tensor_fence(0); }
__device__ __forceinline__ void fence_after_thread_sync() { qconv_cpu_tensor_fence(1); }

// Allocates columns of tensor memory, a power of two of at least 32, and writes their address to shared
// memory: all lanes of one warp. The block allocates no more afterwards, so that another block can. The same
// warp must free them.
template <int COLUMNS>
__device__ __forceinline__ void allocate_tensor_memory(unsigned* address, int line = __builtin_LINE()) {
    warp_barrier(line);
    if (lane() != 0) return;
    *address = qconv_cpu_tensor_allocate(COLUMNS, line);
    qconv_cpu_tensor_relinquish(line);
}
template <int COLUMNS>
__device__ __forceinline__ void free_tensor_memory(unsigned address, int line = __builtin_LINE()) {
    warp_barrier(line);
    if (lane() == 0) qconv_cpu_tensor_free(address, COLUMNS, line);
}

@@ 62093cdc in pages/tcgen05-body-sm_100a.cu: // Computes D = A * B, or D += A * B if `adds`, in tensor memory: one thread. A thread's products execute in
@@ 4+8
    unsigned d, unsigned long long a, unsigned long long b, unsigned kind, bool adds,
    int line = __builtin_LINE()) {
    qconv_cpu_tensor_multiply(d, a, b, kind, adds, line);
@@ 15+5
__device__ __forceinline__ void commit_products(Mbarrier& mbarrier, int line = __builtin_LINE()) {
    qconv_cpu_tensor_commit(&mbarrier, line);

// Loads 32 columns of this thread's lane of tensor memory: all lanes of a warp, which can access the 32 lanes
// at 32 * (warp % 4). Wait before reading them.
__device__ __forceinline__ void load_sums(unsigned address, int (&sums)[32], int line = __builtin_LINE()) {
    warp_barrier(line);
    qconv_cpu_tensor_load(address, sums, 32, line);
}
__device__ __forceinline__ void wait_for_sums(int (&)[32], int line = __builtin_LINE()) {
    warp_barrier(line);
    qconv_cpu_tensor_wait_for_loads();
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    int* borders;  // offsets by class of pixels and output channel
    tile::TensorMap pixel_map;  // map of x
    tile::TensorMap weight_map;  // map of w
    float multiplier;  // x_scale * w_scale

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 12+1
        const auto bias = tile::load_vector<WIDTH>(args.bias + first);
@@ 14+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].bias = bias.element[j];
@@ 16+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].multiplier = args.multiplier;

// Entry points: the CPU device calls one per thread.
extern "C" void conv2d_fold_entry(const void* args) {
    conv2d_fold(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_fold_borders_entry(const void* args) {
    conv2d_fold_borders(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_tcgen05_entry(const void* args) {
    conv2d_tcgen05(*static_cast<const Arguments*>(args));
}
