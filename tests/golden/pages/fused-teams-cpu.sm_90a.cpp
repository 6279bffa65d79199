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

@@ d32e6ba5 in pages/fused-depthwise-pointwise-sm_90a.cu: // The config.
@@ 5+1
constexpr int TEAMS = 2;  // teams per block; each computes tiles of its own

@@ a5fda853 in pages/fused-depthwise-pointwise-sm_90a.cu: // What follows.
@@ 4+1
[[maybe_unused]] constexpr int BLOCK_THREADS = 256;
@@ 8+1
constexpr int GRID_TEAMS = 16;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 11+1
[[maybe_unused]] constexpr bool COPIES_WEIGHTS = true;  // some weights are copied asynchronously
@@ 19+1
constexpr int MID_SMEM_CHUNKS = 10;  // chunks in shared memory
@@ 22+1
constexpr int SMEM_BYTES = 41808;
constexpr int COPIES_IN_FLIGHT = 2;  // of a thread

__device__ __forceinline__ int team() { return thread() / THREADS; }
__device__ __forceinline__ void barrier_of_team(int team, int line = __builtin_LINE()) {
    qconv_cpu_barrier_of_team(team, THREADS, line);
}

// Returns `said`: each thread branches on its own.
__device__ __forceinline__ bool warp_uniform(bool said) { return said; }

template <class T>
__device__ __forceinline__ const T* kept(const T* address) { return address; }

// Prefetches a cache line of device memory that will be read soon. The address must exist.
__device__ __forceinline__ void prefetch_l2(const void* address) {
    static_cast<void>(*static_cast<const volatile char*>(address));
}

@@ // The config.
constexpr int ATOMS = 2;  // eights of channels per warpgroup

@@ df36d7f9 in pages/fused-depthwise-pointwise-sm_90a.cu: // What follows.
@@ 2+3
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 16;  // output channels per slab, which is a warpgroup's
@@ 7+0
constexpr int BUFFERS = 2;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 1;  // warpgroups that multiply a slab together
@@ 8+9
constexpr int CHUNKS = 10;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 10;  // chunks of the reduction
constexpr int POSITIONS = 112;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 8;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 1;  // taps that are written out
constexpr int UNROLL_CHUNKS = 5;  // pairs of chunks that are written out
@@ 28+1

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
