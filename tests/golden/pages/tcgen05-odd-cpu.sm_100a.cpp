// conv2d:n=1:h=28:w=28:c=80:k=21:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=uint8:out_type=float16:x_zero_point:
//     bias=float32:activation=relu
//
// target    cpu.sm_100a
// config    tcgen05 pixels=128 channels=32 writers=1 slab=128 slots=3
// launch    conv2d_fold<<<21x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<2x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_tcgen05<<<4x1x1, 192, 62464 B>>> when: call

@@ // The config.
constexpr int TILE_M = 128;  // output pixels of a tile
constexpr int TILE_N = 32;  // output channels of a tile
WRITERS=1
constexpr int SLOTS = 3;  // slabs that are under way or multiplied

@@ // What follows.
WARP_SIZE=32 THREADS=192 SLAB=128
constexpr int SLABS = 9;  // of a tile: for each 128 channels, all taps
constexpr int COLUMNS = 64;  // of tensor memory
CHANNEL_TILES=1 TILES=7 BLOCKS=4
constexpr int VECTOR_K = 1;  // neighbouring outputs that a thread writes at once
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=62464
FOLD_THREADS=128

@@ fa6076f7 in shared.cpp: // The CPU device runs each thread of a block as a fiber; its runtime has these.
@@ 16+0
unsigned qconv_cpu_tensor_allocate(unsigned columns, int line);
void qconv_cpu_tensor_relinquish(int line);
void qconv_cpu_tensor_free(unsigned address, unsigned columns, int line);
void qconv_cpu_tensor_fence(int after);
void qconv_cpu_tensor_multiply(
    unsigned sums, unsigned long long a, unsigned long long b, unsigned kind, int adds, int line);
void qconv_cpu_tensor_commit(void* mbarrier, int line);
void qconv_cpu_tensor_load(unsigned address, int* to, unsigned count, int line);
void qconv_cpu_tensor_wait_for_loads(void);

__device__ __forceinline__ int uniform_warp() { return warp(); }

// Whether this thread is the one of its warp that works for all lanes, which come here together.
__device__ __forceinline__ bool elected(int line = __builtin_LINE()) {
    warp_barrier(line);
    return lane() == 0;
}

// Where an object lies in shared memory, as descriptors of factors have it.
__device__ __forceinline__ unsigned shared_offset(const void* object) {
    return static_cast<unsigned>(static_cast<const char*>(object) - static_cast<char*>(qconv_cpu_shared()));
}

// Whoever uses tensor memory, and meets others who do, says so: before he arrives, and when he has waited.
__device__ __forceinline__ void fence_before_thread_sync() { qconv_cpu_tensor_fence(0); }
__device__ __forceinline__ void fence_after_thread_sync() { qconv_cpu_tensor_fence(1); }

// All lanes of one warp: columns of tensor memory, a power of two from 32 on, whose address goes to shared
// memory. The block allocates no others, so that another one may. The same warp frees them.
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

// By one thread: D = A * B, or D += A * B, in tensor memory. Products of a thread are made in their order.
__device__ __forceinline__ void multiply(
    unsigned d, unsigned long long a, unsigned long long b, unsigned kind, bool adds,
    int line = __builtin_LINE()) {
    qconv_cpu_tensor_multiply(d, a, b, kind, adds, line);
}
// One arrival when all products are made that this thread has asked for: their factors are read, their sums
// are there.
__device__ __forceinline__ void commit_products(Mbarrier& mbarrier, int line = __builtin_LINE()) {
    qconv_cpu_tensor_commit(&mbarrier, line);
}

// All lanes of a warp, which reaches the 32 lanes of tensor memory of its number modulo 4: so many columns of
// a lane. Nobody reads them before he has waited.
__device__ __forceinline__ void load_sums(unsigned address, int (&sums)[32], int line = __builtin_LINE()) {
    warp_barrier(line);
    qconv_cpu_tensor_load(address, sums, 32, line);
}
__device__ __forceinline__ void wait_for_sums(int (&)[32], int line = __builtin_LINE()) {
    warp_barrier(line);
    qconv_cpu_tensor_wait_for_loads();
}

@@ 609536db in shared.cu: // The kernel's one argument.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    int* borders;  // offset, for each class of pixels
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of w
    float multiplier;  // x_scale * w_scale

@@ 1b181527 in whole/fused-small-image-sm_90a.cu: // The channel parameters of neighbouring channels. Those past the last channel repeat others that exist.
@@ 11+2
        const auto bias =
            tile::load_vector<WIDTH>(args.bias + first);
@@ 16+2
            channels[i + j].bias = bias.element[j];
            channels[i + j].multiplier = args.multiplier;

@@ ce0aa434 in pages/tcgen05-body-sm_100a.cu: // A thread's sums become outputs: those of a pixel and of STRIP channels from `k` on. The lanes of a warp
@@ 6+0
    const int border = border_of(pixel);
@@ 16+1
            finished[i] = finish(inputs, with_offset_of(args, channels[i], border, k + at + i));

// How the CPU device calls a thread.
extern "C" void conv2d_fold_entry(const void* args) {
    conv2d_fold(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_fold_borders_entry(const void* args) {
    conv2d_fold_borders(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_tcgen05_entry(const void* args) {
    conv2d_tcgen05(*static_cast<const Arguments*>(args));
}
