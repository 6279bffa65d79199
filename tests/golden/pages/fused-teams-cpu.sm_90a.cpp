// conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu+conv2d:n=32:h=56:w=56:c=144:k=24:r=1:s=1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    cpu.sm_90a
// config    fused tile_h=8 tile_w=14 warps=4 blocks_per_sm=2 teams=2 cluster_blocks=1 weights_in_smem=1
//           on_wgmma=1 first_m=2 first_n=2 second_m=1 second_n=2
// launch    first_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<10x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<8x1x1, 256, 41808 B>>> when: call

@@ // The config.
constexpr int TILE_H = 8;  // output rows of a tile
TILE_W=14 BLOCKS_PER_SM=2 TEAMS=2 CLUSTER_BLOCKS=1

@@ // What follows.
WARP_SIZE=32
constexpr int THREADS = 128;  // threads per team
BLOCK_THREADS=256 TILES_H=7 TILES_W=4
constexpr int TILES = 896;  // tiles of all images
GRID_TEAMS=16 LOADS_INPUT=false LOADS_ASYNC=false COPIES_WEIGHTS=true WEIGHTS_BEHIND_INPUT=false
BY_SLICES=false MID_STRIDE_H=1 MID_STRIDE_W=1 MID_PAD_TOP=0 MID_PAD_LEFT=0 MID_CHUNKS=9 MID_SMEM_CHUNKS=10
MID_PLANE=113 PART_CHUNKS=9 SMEM_BYTES=41808
constexpr int COPIES_IN_FLIGHT = 2;  // of a thread

@@ 79124eea in shared.cpp: // The CPU device runs each thread of a block as a fiber. Its runtime provides these functions.
@@ 7+0
void qconv_cpu_barrier_of_team(int team, int threads, int line);
@@ 8+1
@@ 10+1
int qconv_cpu_defers_copies(void);
void qconv_cpu_mbarrier_init(void* mbarrier, int line);
@@ 13+3
void qconv_cpu_copy_bulk(void* to, const void* from, unsigned bytes, void* mbarrier, int line);
void qconv_cpu_use_async_proxy(void);
void qconv_cpu_fence_proxy_async(void);
const void* qconv_cpu_async_proxy_view(const void* address);

__device__ __forceinline__ int team() { return thread() / THREADS; }
__device__ __forceinline__ void barrier_of_team(int team, int line = __builtin_LINE()) {
    qconv_cpu_barrier_of_team(team, THREADS, line);
}

__device__ __forceinline__ int warpgroup() { return static_cast<unsigned>(thread()) / 128u; }
// Makes this thread's writes to shared memory visible to bulk copies and to wgmma.
__device__ __forceinline__ void fence_proxy_async() { qconv_cpu_fence_proxy_async(); }

// Returns `said`: each thread branches on its own.
__device__ __forceinline__ bool warp_uniform(bool said) { return said; }

template <class T>
__device__ __forceinline__ const T* kept(const T* address) { return address; }

// Prefetches a cache line of device memory that will be read soon. The address must exist.
__device__ __forceinline__ void prefetch_l2(const void* address) {
    static_cast<void>(*static_cast<const volatile char*>(address));
}

    // Initialises the mbarrier and announces bytes: one thread, before others wait or send.
    __device__ __forceinline__ void expect(int bytes, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_init(this, line);
        expect_next(bytes, line);
    }
    // Announces the bytes of the next phase: one thread, once the last phase is complete.
    __device__ __forceinline__ void expect_next(int bytes, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_expect(this, static_cast<unsigned>(bytes), line);
    }
    // Fetches bytes, a multiple of 16, from device memory, as the only bytes that the mbarrier expects.
    __device__ __forceinline__ void fetch(
        void* to, const void* from, int bytes, int line = __builtin_LINE()) {
        expect(bytes, line);
        qconv_cpu_copy_bulk(to, from, static_cast<unsigned>(bytes), this, line);
    }
    // Fetches the bytes of the next phase, once nobody reads those of the last.
    __device__ __forceinline__ void fetch_next(
        void* to, const void* from, int bytes, int line = __builtin_LINE()) {
        expect_next(bytes, line);
        qconv_cpu_copy_bulk(to, from, static_cast<unsigned>(bytes), this, line);
    }
    // Waits until all bytes of a phase have arrived; phases are numbered from 0.
    __device__ __forceinline__ void wait_for_phase(int phase, int line = __builtin_LINE()) {
        qconv_cpu_mbarrier_wait(this, static_cast<unsigned>(phase), line);
    }
    __device__ __forceinline__ void wait(int line = __builtin_LINE()) { wait_for_phase(0, line); }
};

@@ // The config.
ATOMS=2

@@ // What follows.
RUN=64 SLAB_K=16 ALL_SLABS=2 BLOCK_SLABS=2 BUFFERS=2 OF_SLAB=1 TAPS=1 CHUNKS=10 UNITS=10 POSITIONS=112
EIGHTS_STRIDE=8 UNROLL_TAPS=1 UNROLL_CHUNKS=5 SOURCE_ROWS=8 SOURCE_COLUMNS=14 SOURCE_ROW=14 INTERLEAVED=false
SOURCE_PLANE=113 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112 DIVIDED=false HAS_K_REMAINDER=true VECTOR_K=4

// wgmma on the CPU device: 64 pixels by SLAB_K channels, 32 bytes of the reduction per product. Each lane
// reads the factors of its own sums, through the same strides as the hardware and as the async proxy sees
// them.
struct Operand {
    const unsigned char* first;
    int to_chunk, to_eight, rows;
    long to_view;  // from an address to the async proxy's view of it

    // `to_chunk` is the byte distance to the next 16 bytes of the reduction, `to_eight` that to the next
    // eight rows. Only `rows` rows exist: the hardware reads past them, but those sums are never read.
    __device__ __forceinline__ Operand(
        const void* begin, int to_chunk, int to_eight, int rows, int line = __builtin_LINE())
        : first(static_cast<const unsigned char*>(begin)), to_chunk(to_chunk), to_eight(to_eight),
          rows(rows),
          to_view(static_cast<const char*>(qconv_cpu_async_proxy_view(begin)) -
                  static_cast<const char*>(begin)) {
        if ((reinterpret_cast<unsigned long>(first) | to_chunk | to_eight) % 16 != 0)
            qconv_cpu_fail("a factor of a warpgroup that is not 16-byte aligned", line);
    }
    __device__ __forceinline__ Operand behind(int bytes) const {
        Operand operand = *this;
        operand.first += bytes;
        return operand;
    }
    __device__ __forceinline__ unsigned word(int row, int i) const {
        const unsigned char* const matrix = first + row / 8 * to_eight + i / 4 * to_chunk;
        const unsigned char* const at = matrix + row % 8 * 16 + i % 4 * 4;
        static_cast<void>(*static_cast<const volatile unsigned char*>(at));  // a read that the sanitizers see
        return reinterpret_cast<const tile::Words<1>*>(at + to_view)->word[0];
    }
};

constexpr bool A_SIGNED = X_SIGNED, B_SIGNED = W_SIGNED;
__device__ __forceinline__ int product(unsigned a, unsigned b, int index) {
    const unsigned a_byte = (a >> (8 * index)) & 0xffu, b_byte = (b >> (8 * index)) & 0xffu;
    return (A_SIGNED ? static_cast<signed char>(a_byte) : static_cast<int>(a_byte)) *
           (B_SIGNED ? static_cast<signed char>(b_byte) : static_cast<int>(b_byte));
}

// Computes D += A * B modulo 2**32.
__device__ __forceinline__ void multiply_add(const Operand& a, const Operand& b, Sum (&d)[ATOMS][4]) {
    for (int place = 0; place < LANE_PIXELS; ++place) {
        const int row = pixel_of_lane(place);
        if (row >= a.rows) continue;
        for (int j = 0; j < LANE_K; ++j) {
            Sum& sum = d[j / 2][place * 2 + j % 2];
            unsigned added = static_cast<unsigned>(sum);
            for (int word = 0; word < 8; ++word) {
                const unsigned x = a.word(row, word);
                const unsigned w = b.word(j / 2 * 8 + channel_lane() * 2 + j % 2, word);
                added += four_products(x, w);
            }
            sum = static_cast<Sum>(added);
        }
    }
}

// Does nothing: the sums are computed synchronously.
__device__ __forceinline__ void end_products() {}
__device__ __forceinline__ void await(Sum (&)[ATOMS][4]) {}

// Entry points: the CPU device calls one per thread.
extern "C" void first_repack_weights_entry(const void* args) {
    first_repack_weights(*static_cast<const Arguments*>(args));
}
extern "C" void second_repack_weights_entry(const void* args) {
    second_repack_weights(*static_cast<const Arguments*>(args));
}
extern "C" void conv2d_conv2d_entry(const void* args) {
    conv2d_conv2d(*static_cast<const Arguments*>(args));
}
