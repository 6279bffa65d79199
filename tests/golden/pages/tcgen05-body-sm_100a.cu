// conv2d:n=8:h=28:w=28:c=128:k=256:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    sm_100a
// config    tcgen05 pixels=128 channels=256 writers=2 slab=128 slots=4
// launch    conv2d_tcgen05<<<49x1x1, 320, 197632 B>>> when: call

@@ // The config.
TILE_M=128 TILE_N=256 WRITERS=2
constexpr int SLOTS = 4;  // slots of the ring of slabs

@@ // Derived values.
WARP_SIZE=32 THREADS=320 SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
constexpr int COLUMNS = 512;  // allocated columns of tensor memory
CHANNEL_TILES=1 TILES=49 BLOCKS=49
constexpr int VECTOR_K = 16;  // neighbouring outputs that a thread writes at once
SMEM_BYTES=197632

static_assert(THREADS == 128 * WRITERS + 64, "warpgroups that write, a warp to fetch and one to multiply");
static_assert(C_GROUP == C && K_GROUP == K && C % 16 == 0, "one group, of whole 16 bytes a pixel");
static_assert(PADDED || (OUT_H <= IN_H && OUT_W <= IN_W), "without padding, every window lies in the image");
static_assert(REDUCTION == R * S * C, "one row of weights must be one channel's");
static_assert(SLABS == R * S * ((C + SLAB_CHANNELS - 1) / SLAB_CHANNELS), "SLABS must cover the reduction");

// Returns the thread's warp; the shuffle tells the compiler that it is warp-uniform.
__device__ __forceinline__ int uniform_warp() { return __shfl_sync(0xffffffffu, warp(), 0); }

// Returns true for the one thread of its warp that acts for all lanes. All lanes must call it together. The
// compiler knows that elect.sync selects a single lane; after a comparison of lane numbers it would emit a
// loop over lanes around every product.
__device__ __forceinline__ bool elected() {
    unsigned is_elected;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "elect.sync _|p, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(is_elected)::"memory");
    return is_elected != 0;
}

// Returns the address of an object in shared memory, in the form that matrix descriptors take.
__device__ __forceinline__ unsigned shared_offset(const void* object) { return shared_address(object); }

// A thread that uses tensor memory and synchronises with others that do calls these: the first before it
// arrives, the second after it has waited.
__device__ __forceinline__ void fence_before_thread_sync() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void fence_after_thread_sync() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Allocates columns of tensor memory, a power of two of at least 32, and writes their address to shared
// memory: all lanes of one warp. The block allocates no more afterwards, so that another block can. The same
// warp must free them.
template <int COLUMNS>
__device__ __forceinline__ void allocate_tensor_memory(unsigned* address) {
    asm volatile(
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(shared_address(address)),
        "n"(COLUMNS)
        : "memory");
}
template <int COLUMNS>
__device__ __forceinline__ void free_tensor_memory(unsigned address) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(COLUMNS));
}

// Computes D = A * B, or D += A * B if `adds`, in tensor memory: one thread. A thread's products execute in
// order.
__device__ __forceinline__ void multiply(
    unsigned d, unsigned long long a, unsigned long long b, unsigned kind, bool adds) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %4, 0;\n"
        "tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, adds;\n"
        "}" ::"r"(d), "l"(a), "l"(b), "r"(kind), "r"(static_cast<int>(adds))
        : "memory");
}
// Arrives once when all products that this thread has issued are complete: their factors are read and their
// sums written.
__device__ __forceinline__ void commit_products(Mbarrier& mbarrier) {
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
            shared_address(&mbarrier))
        : "memory");
}

// Loads 32 columns of this thread's lane of tensor memory: all lanes of a warp, which can access the 32 lanes
// at 32 * (warp % 4). Wait before reading them.
#define EIGHT_SUMS(how, i) \
    how(sums[i]), how(sums[i + 1]), how(sums[i + 2]), how(sums[i + 3]), how(sums[i + 4]), how(sums[i + 5]), \
        how(sums[i + 6]), how(sums[i + 7])
__device__ __forceinline__ void load_sums(unsigned address, int (&sums)[32]) {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
        : EIGHT_SUMS("=r", 0), EIGHT_SUMS("=r", 8), EIGHT_SUMS("=r", 16), EIGHT_SUMS("=r", 24)
        : "r"(address));
}
// Waits for the sums. The compiler does not know that they change until here.
__device__ __forceinline__ void wait_for_sums(int (&sums)[32]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : EIGHT_SUMS("+r", 0), EIGHT_SUMS("+r", 8), EIGHT_SUMS("+r", 16), EIGHT_SUMS("+r", 24)
                 :
                 : "memory");
}
#undef EIGHT_SUMS

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 8+0
    tile::TensorMap pixel_map;  // map of x
    tile::TensorMap weight_map;  // map of w

    // For one of a consumer's threads, once all have read the slot.
    __device__ __forceinline__ void release(const State& state) { empty[state.slot].arrive(); }

    // For the producer, after its last slot: a block must not exit while others release its slots.
    __device__ __forceinline__ void drain(State state) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);
            state.advance();
        }
    }
};

// Two accumulators in tensor memory: the kernel multiplies into one while it writes out the other. One is
// full when all products of a tile are complete, and empty when all of its readers have its sums in
// registers.
struct Accumulators {
    tile::Mbarrier full[2], empty[2];
    using State = PipelineState<2>;

    // Initialises the mbarriers: one thread, before the block's barrier. `releases` arrivals make an
    // accumulator empty.
    __device__ __forceinline__ void open(int releases) {
        for (int slot = 0; slot < 2; ++slot) {
            full[slot].init(1);
            empty[slot].init(releases);
        }
        tile::fence_mbarrier_init();
    }

    // For the thread that multiplies: waits until the accumulator is empty, and signals when it is full.
    __device__ __forceinline__ void acquire(const State& state) {
        if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);
    }
    __device__ __forceinline__ void commit(const State& state) { tile::commit_products(full[state.slot]); }

    // For the threads that write: wait until it is full, and release it.
    __device__ __forceinline__ void wait(const State& state) {
        full[state.slot].wait_for_phase(state.phase);
        tile::fence_after_thread_sync();
    }
    __device__ __forceinline__ void release(const State& state) { empty[state.slot].arrive(); }
};

// tcgen05.mma.cta_group::1.kind::i8: 128 output pixels by TILE_N channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of one slab with TMA's
// swizzle. One thread issues it. The sums are in tensor memory: one lane per pixel, one column per channel.
constexpr int ROWS = 128;  // pixels per product
static_assert(TILE_M % ROWS == 0 && TILE_N % 16 == 0 && TILE_N <= 256, "the shape of a product");
// The instruction descriptor: 32-bit integer sums modulo 2**32, the signs of the bytes, both factors K-major,
// and the shape.
constexpr unsigned KIND = 2u << 4 | (X_SIGNED ? 1u : 0u) << 7 | (W_SIGNED ? 1u : 0u) << 10 |
                          TILE_N / 8u << 17 | ROWS / 16u << 24;

static_assert(SLAB == 128 || SLAB == 64, "the swizzles whose numbers stand below");
constexpr unsigned long long EIGHT_ROWS = 8 * SLAB, SWIZZLE = SLAB == 128 ? 2 : 4;

    // Version 1. Groups of eight rows are EIGHT_ROWS bytes apart.
    __device__ __forceinline__ explicit Operand(const void* rows)
        : descriptor((tile::shared_offset(rows) & 0x3ffffu) / 16u | 1ull << 16 | EIGHT_ROWS / 16 << 32 |
                     1ull << 46 | SWIZZLE << 61) {}
    __device__ __forceinline__ explicit Operand(unsigned long long descriptor) : descriptor(descriptor) {}
    __device__ __forceinline__ Operand behind(int bytes) const {
        return Operand(descriptor + static_cast<unsigned>(bytes / 16));
    }
};

// Multiplies into tensor memory, from address `sums` on.
__device__ __forceinline__ void multiply(unsigned sums, const Operand& x, const Operand& w, bool adds) {
    tile::multiply(sums, x.descriptor, w.descriptor, KIND, adds);
}

// The part of an accumulator that a warp reads at once: its 32 pixels by STRIP channels.
constexpr int STRIP = 32, STRIPS = TILE_M / ROWS * (TILE_N / STRIP);
static_assert(TILE_N % STRIP == 0 && STRIPS % WRITERS == 0, "warpgroups must write as much as each other");
constexpr int ACCUMULATOR = TILE_M / ROWS * TILE_N;  // columns of tensor memory
static_assert(COLUMNS >= 2 * ACCUMULATOR, "both accumulators must have room");

using SlabRing = Ring<SLOTS>;
struct alignas(1024) Shared {
    unsigned char pixels[SLOTS][TILE_M][SLAB];
    unsigned char weights[SLOTS][TILE_N][SLAB];
    SlabRing slabs;  // a slot holds one slab of pixels and one of weights
    Accumulators accumulators;
    unsigned tensor_memory;  // its first address
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

@@ 9b5526bc in whole/wgmma-body-sm_90a.cu: // The tiles of a block. Channels vary fastest, so that concurrent blocks read the same pixels.
@@ 6+6
    __device__ __forceinline__ int first_channel() const { return tile % CHANNEL_TILES * TILE_N; }
    __device__ __forceinline__ int first_pixel() const { return tile / CHANNEL_TILES * TILE_M; }

// Fetches the slabs of pixels and weights, in the order of their multiplication: one thread. All taps of a
// slab's channels are consecutive, so that most pixels hit in L2. Channels past the last, pixels of images
// past the last, and weights of channels past the last are zeros; they count as bytes too.
__device__ __forceinline__ void fetch(const Arguments& args, Shared& shared) {
    SlabRing::State at;
    for (Tiles tiles; tiles.any(); tiles.advance()) {
        // The position of the filter's first tap for the first pixel of the tile.
        const int channel = tiles.first_channel(), pixel = tiles.first_pixel(), n = pixel / (OUT_H * OUT_W);
        const int h = pixel / OUT_W % OUT_H * STRIDE_H - PAD_TOP, w = pixel % OUT_W * STRIDE_W - PAD_LEFT;
#pragma unroll 1
        for (int slab = 0; slab < SLABS; ++slab) {
            const int c = slab / (R * S) * SLAB_CHANNELS, r = slab / S % R, s = slab % S;
            auto& pixels = shared.pixels[at.slot];
            auto& weights = shared.weights[at.slot];
            tile::Mbarrier& full = shared.slabs.acquire(at, sizeof pixels + sizeof weights);
            tile::load_im2col_4d(args.pixel_map, pixels, full, c, w, h, n, s * DILATION_W, r * DILATION_H);
            tile::load_tile_2d(args.weight_map, weights, full, (r * S + s) * C + c, channel);
            at.advance();
        }
    }
    shared.slabs.drain(at);
}

// Issues the products of all slabs: one thread. The tensor core itself signals when a slot's products are
// complete, which empties the slot, and when an accumulator is full.
__device__ __forceinline__ void multiply_tiles(Shared& shared, unsigned tensor_memory) {
    SlabRing::State at;
    Accumulators::State accumulator;
    for (Tiles tiles; tiles.any(); tiles.advance()) {
        shared.accumulators.acquire(accumulator);
        const unsigned sums = tensor_memory + accumulator.slot * ACCUMULATOR;
#pragma unroll 1
        for (int slab = 0; slab < SLABS; ++slab) {
            shared.slabs.wait(at);
            tile::fence_after_thread_sync();
            const Operand pixels(shared.pixels[at.slot]), weights(shared.weights[at.slot]);
#pragma unroll
            for (int k = 0; k < SLAB; k += 32) {
#pragma unroll
                for (int part = 0; part < TILE_M / ROWS; ++part) {
                    multiply(sums + part * TILE_N, pixels.behind(part * ROWS * SLAB + k), weights.behind(k),
                             slab + k > 0);
                }
            }
            tile::commit_products(shared.slabs.empty[at.slot]);
            at.advance();
        }
        shared.accumulators.commit(accumulator);
        accumulator.advance();
    }
}

// Every channel of every tile exists.
constexpr bool WHOLE_TILES = K % TILE_N == 0;
constexpr bool HAS_K_REMAINDER = false;  // of the channels written at once, all exist or none does

// The residuals of channels that are written at once.
struct Residuals {
    __device__ __forceinline__ Residuals(const Arguments&, int) {}
    __device__ __forceinline__ Inputs beside(Sum sum, int) const { return {sum}; }
};

// Finishes and writes a thread's sums: STRIP channels of one pixel, from `k` on. All lanes of a warp have the
// same channels, so that one load of their parameters serves all of them.
__device__ __forceinline__ void write_sums(
    const Arguments& args, const Sum (&sums)[STRIP], int pixel, int k) {
    if (pixel >= PIXELS) return;
#pragma unroll
    for (int at = 0; at < STRIP; at += VECTOR_K) {
        if (!WHOLE_TILES && k + at >= K) return;
        Output* const to = args.y + (pixel * K + k + at);
        const Residuals residuals(args, pixel * K + k + at);
        Channel channels[VECTOR_K];
        load_channels(args, k + at, channels);
        Finished finished[VECTOR_K];
#pragma unroll
        for (int i = 0; i < VECTOR_K; ++i) {
            const Inputs inputs = residuals.beside(sums[at + i], i);
            finished[i] = finish(inputs, channels[i]);
        }
        if constexpr (VECTOR_K > 1) write(to, finished);
        else to[0] = narrow(finished[0]);
    }
}

// Writes the tiles: each warpgroup takes every WRITERS-th strip, while the next tile is multiplied. A warp
// releases an accumulator as soon as it has its last sums in registers.
__device__ __forceinline__ void write_tiles(
    const Arguments& args, Shared& shared, unsigned tensor_memory, int warp) {
    Accumulators::State accumulator;
    const int first_lane = warp % 4 * 32, first_strip = warp / 4;
    for (Tiles tiles; tiles.any(); tiles.advance()) {
        shared.accumulators.wait(accumulator);
        const unsigned sums_at = tensor_memory + accumulator.slot * ACCUMULATOR + (first_lane << 16);
#pragma unroll 1
        for (int strip = first_strip; strip < STRIPS; strip += WRITERS) {
            Sum sums[STRIP];
            tile::warp_barrier();  // lanes that had no pixel to write, or less to wait for, rejoin here
            tile::load_sums(sums_at + strip * STRIP, sums);
            tile::wait_for_sums(sums);
            if (strip + WRITERS >= STRIPS) {
                tile::fence_before_thread_sync();
                tile::warp_barrier();  // all lanes have their sums
                if (tile::lane() == 0) shared.accumulators.release(accumulator);
            }
            const int part = strip / (TILE_N / STRIP), first = strip % (TILE_N / STRIP) * STRIP;
            write_sums(args, sums, tiles.first_pixel() + part * ROWS + first_lane + tile::lane(),
                       tiles.first_channel() + first);
        }
        accumulator.advance();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
conv2d_tcgen05(const __grid_constant__ Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    constexpr int FETCHES = 4 * WRITERS, MULTIPLIES = FETCHES + 1;  // numbers of these roles' warps
    const int warp = tile::uniform_warp();
    tile::launch_dependents();
    if (tile::thread() == 0) {
        shared.slabs.open(1);
        shared.accumulators.open(4 * WRITERS);  // the warps that write
    }
    if (warp == MULTIPLIES) tile::allocate_tensor_memory<COLUMNS>(&shared.tensor_memory);
    tile::fence_before_thread_sync();
    tile::barrier();
    tile::fence_after_thread_sync();
    const unsigned tensor_memory = shared.tensor_memory;
    if (warp < FETCHES) {
        write_tiles(args, shared, tensor_memory, warp);
    } else if (warp == FETCHES) {
        if (tile::elected()) {
            tile::wait_on_dependency();
            fetch(args, shared);
        }
    } else {
        if (tile::elected()) multiply_tiles(shared, tensor_memory);
    }
    tile::warp_barrier();  // only one lane of some warps had work
    tile::fence_before_thread_sync();
    tile::barrier();  // all sums are in registers
    tile::fence_after_thread_sync();
    if (warp == MULTIPLIES) tile::free_tensor_memory<COLUMNS>(tensor_memory);
}
