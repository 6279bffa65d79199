// Kernel 4: as many blocks as multiprocessors, each makes tile after tile, and the tensor cores rarely wait for a
// store.
//
// What is new:
//   - The channels are the rows of the product and the pixels its columns: a lane then has four channels and many
//     pixels, so it keeps its scales in registers, and a tile can have any multiple of 16 pixels.
//   - A tile of 256 channels and 192 pixels: two consumers with 192 sums a thread. A cycle of products needs 36
//     bytes of copies, where 256 x 128 needs 48; and 192 often fits the 132 multiprocessors better.
//   - Persistence: the producers go on to the next tile while the consumers finish this one.
//   - A ring for each consumer's own operand, and one for the operand that they share. So the second consumer can
//     be LAG slabs behind the first, and while one of them stores its outputs the other one multiplies.
//   - The taps are the inner loop, the channels the outer one: what a tile reads for the first time, from device
//     memory, is spread over its whole duration, and the other eight taps find it in the L2 cache.
//   - Clusters: CLUSTER blocks with the same channels load a part of the weights each, and TMA writes
//     it to all of them (multicast), so that less is read from the L2 cache.
//   - Programmatic dependent launch: a block sets itself up and loads weights while the launch before still runs.
#include "harness.cuh"
#include "ptx.cuh"

// Whether the consumers of a tile divide its channels or its pixels.
enum Split { BY_CHANNELS, BY_PIXELS };

// One way to cut the problem. A consumer makes 128 channels of PIXELS pixels.
template <int CONSUMERS_, Split SPLIT_, int PIXELS_, int PIXEL_STAGES_, int WEIGHT_STAGES_, int LAG_, int CLUSTER_>
struct Config {
    static constexpr int CONSUMERS = CONSUMERS_, PIXELS = PIXELS_, CHANNELS = 128, SLAB = 128, LAG = LAG_;
    static constexpr int CLUSTER = CLUSTER_, PIXEL_STAGES = PIXEL_STAGES_, WEIGHT_STAGES = WEIGHT_STAGES_;
    static constexpr int PIXEL_RINGS = SPLIT_ == BY_PIXELS ? CONSUMERS : 1;
    static constexpr int WEIGHT_RINGS = SPLIT_ == BY_CHANNELS ? CONSUMERS : 1;
    static constexpr int TILE_PIXELS = PIXELS * PIXEL_RINGS, TILE_CHANNELS = CHANNELS * WEIGHT_RINGS;
    static constexpr int THREADS = 128 * (CONSUMERS + 1);
    static constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
    static constexpr int SHARED_STAGES = SPLIT_ == BY_CHANNELS ? PIXEL_STAGES : WEIGHT_STAGES;
    static_assert(LAG < SHARED_STAGES, "a slot of the shared operand stays full until the last consumer has read it");
    static_assert(CONSUMERS <= 2 && CONSUMERS * CONSUMER_REGISTERS + PRODUCER_REGISTERS <= 512);
};

// Slots that a producer fills and consumers empty, each slab after the one before.
template <int ROWS, int SLAB, int STAGES>
struct Ring {
    alignas(1024) int8_t slots[STAGES][ROWS][SLAB];
    uint64_t full[STAGES], empty[STAGES];
    uint64_t under_way;  // in the first ring of pixels: completes once, when the first consumer is LAG slabs ahead

    __device__ void init(int consumers) {
        ptx::mbarrier_init(&under_way, 1);
        for (int i = 0; i < STAGES; ++i) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], consumers);
        }
    }
};

// Slot and phase of a ring, which goes on through all tiles of a block.
template <int STAGES>
struct Position {
    int slot = 0, phase = 0;
    __device__ void advance() {
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
};

template <class C>
struct Shared {
    Ring<C::PIXELS, C::SLAB, C::PIXEL_STAGES> pixels[C::PIXEL_RINGS];
    Ring<C::CHANNELS, C::SLAB, C::WEIGHT_STAGES> weights[C::WEIGHT_RINGS];
};

// The tiles of a block: channels first, so that blocks which run at the same time read the same pixels.
template <class C>
struct Tiles {
    static constexpr int CLUSTER_PIXELS = C::TILE_PIXELS * C::CLUSTER;
    int channel_tiles, count, tile, step, rank;
    static __host__ __device__ int number(const Conv& conv) {
        return conv.k / C::TILE_CHANNELS * ((conv.pixels() + CLUSTER_PIXELS - 1) / CLUSTER_PIXELS);
    }
    __device__ explicit Tiles(const Conv& conv)
        : channel_tiles(conv.k / C::TILE_CHANNELS),
          count(number(conv)),
          tile(blockIdx.x / C::CLUSTER),
          step(gridDim.x / C::CLUSTER),
          rank(blockIdx.x % C::CLUSTER) {}
    __device__ bool any() const { return tile < count; }
    __device__ void advance() { tile += step; }
    __device__ int first_channel() const { return tile % channel_tiles * C::TILE_CHANNELS; }
    __device__ int first_pixel() const { return (tile / channel_tiles * C::CLUSTER + rank) * C::TILE_PIXELS; }
};

// The slabs of a tile in the order in which they are multiplied.
template <int SLAB, class Load>
__device__ __forceinline__ void each_slab(const Conv& conv, const Load& load) {
#pragma unroll 1
    for (int c = 0; c < conv.c; c += SLAB) {
#pragma unroll 1
        for (int r = 0; r < conv.r; ++r) {
#pragma unroll 1
            for (int s = 0; s < conv.s; ++s) load(c, r, s);
        }
    }
}

template <class C>
__device__ __forceinline__ void produce_pixels(
    Shared<C>& shared, int part, const CUtensorMap* map, const Conv& conv) {
    auto& ring = shared.pixels[part];
    Position<C::PIXEL_STAGES> at;
    ptx::wait_on_dependency();
    for (Tiles<C> tiles(conv); tiles.any(); tiles.advance()) {
        const int pixel = tiles.first_pixel() + part * C::PIXELS, n = pixel / (conv.p() * conv.q());
        const int h = pixel / conv.q() % conv.p() * conv.stride - conv.pad;
        const int w = pixel % conv.q() * conv.stride - conv.pad;
        each_slab<C::SLAB>(conv, [&](int c, int r, int s) {
            ptx::mbarrier_wait(&ring.empty[at.slot], at.phase ^ 1);
            ptx::mbarrier_arrive_expect_tx(&ring.full[at.slot], sizeof ring.slots[0]);
            ptx::load_im2col(
                ring.slots[at.slot], map, &ring.full[at.slot], c, w, h, n, s * conv.dilation, r * conv.dilation);
            at.advance();
        });
    }
}

template <class C>
__device__ __forceinline__ void produce_weights(
    Shared<C>& shared, int part, const CUtensorMap* map, const Conv& conv) {
    constexpr int ROWS = C::CHANNELS / C::CLUSTER;
    auto& ring = shared.weights[part];
    Position<C::WEIGHT_STAGES> at;
    for (Tiles<C> tiles(conv); tiles.any(); tiles.advance()) {
        const int first_row = C::CLUSTER > 1 ? tiles.rank * ROWS : 0;
        const int channel = tiles.first_channel() + part * C::CHANNELS + first_row;
        each_slab<C::SLAB>(conv, [&](int c, int r, int s) {
            const int column = (r * conv.s + s) * conv.c + c;
            uint64_t* const full = &ring.full[at.slot];
            ptx::mbarrier_wait(&ring.empty[at.slot], at.phase ^ 1);
            ptx::mbarrier_arrive_expect_tx(full, sizeof ring.slots[0]);
            if constexpr (C::CLUSTER == 1) {
                ptx::load_tile(ring.slots[at.slot], map, full, column, channel);
            } else {
                ptx::load_tile_multicast(
                    ring.slots[at.slot][first_row], map, full, column, channel, (1 << C::CLUSTER) - 1);
            }
            at.advance();
        });
    }
}

template <class C>
__device__ __forceinline__ void consume(Shared<C>& shared, const Conv& conv, const Buffers& buffers, int warpgroup) {
    const int pixel_part = C::PIXEL_RINGS > 1 ? warpgroup : 0, weight_part = C::WEIGHT_RINGS > 1 ? warpgroup : 0;
    auto& pixels = shared.pixels[pixel_part];
    auto& weights = shared.weights[weight_part];
    Position<C::PIXEL_STAGES> pixels_at, pixels_before;
    Position<C::WEIGHT_STAGES> weights_at, weights_before;
    const int slabs = conv.r * conv.s * (conv.c / C::SLAB), lane = threadIdx.x % 128;
    // Who multicasts into this block has to know that its slots are free, so each block of the cluster is told.
    const auto release = [&] {
        if (lane == 0) ptx::mbarrier_arrive(&pixels.empty[pixels_before.slot]);
        if constexpr (C::CLUSTER == 1) {
            if (lane == 0) ptx::mbarrier_arrive(&weights.empty[weights_before.slot]);
        } else {
            if (lane < C::CLUSTER) ptx::mbarrier_arrive_in(&weights.empty[weights_before.slot], lane);
        }
    };
    bool leads = C::LAG > 0 && warpgroup == 0;
    if (C::LAG > 0 && warpgroup > 0) ptx::mbarrier_wait(&shared.pixels[0].under_way, 0);
    for (Tiles<C> tiles(conv); tiles.any(); tiles.advance()) {
        int sums[2][C::PIXELS / 2];
        for (int slab = 0; slab < slabs; ++slab) {
            ptx::mbarrier_wait(&weights.full[weights_at.slot], weights_at.phase);
            ptx::mbarrier_wait(&pixels.full[pixels_at.slot], pixels_at.phase);
            const uint64_t low = ptx::descriptor<C::SLAB>(weights.slots[weights_at.slot]);
            const uint64_t high = ptx::descriptor<C::SLAB>(weights.slots[weights_at.slot][64]);
            const uint64_t columns = ptx::descriptor<C::SLAB>(pixels.slots[pixels_at.slot]);
            ptx::wgmma_fence();
#pragma unroll
            for (int k = 0; k < C::SLAB / 32; ++k) {
                ptx::wgmma<C::PIXELS>(sums[0], low + 2 * k, columns + 2 * k, slab + k > 0);
                ptx::wgmma<C::PIXELS>(sums[1], high + 2 * k, columns + 2 * k, slab + k > 0);
            }
            ptx::wgmma_commit_group();
            ptx::wgmma_wait_group<1>();
            if (slab > 0) release();
            if (leads && (slab == C::LAG || slab == slabs - 1)) {
                if (lane == 0) ptx::mbarrier_arrive(&shared.pixels[0].under_way);
                leads = false;
            }
            pixels_before = pixels_at, weights_before = weights_at;
            pixels_at.advance(), weights_at.advance();
        }
        ptx::wgmma_wait_group<0>();
        release();
        ptx::sums_are_written(sums[0]);
        ptx::sums_are_written(sums[1]);
        store_rows<C::PIXELS>(sums, conv, buffers, tiles.first_pixel() + pixel_part * C::PIXELS,
                              tiles.first_channel() + weight_part * C::CHANNELS);
    }
}

template <class C>
__global__ void __launch_bounds__(C::THREADS, 1) conv_kernel(
    const __grid_constant__ CUtensorMap pixel_map, const __grid_constant__ CUtensorMap weight_map, const Conv conv,
    const Buffers buffers) {
    extern __shared__ __align__(1024) char memory[];
    auto& shared = *reinterpret_cast<Shared<C>*>(memory);
    ptx::launch_dependents();
    if (threadIdx.x == 0) {
        for (auto& ring : shared.pixels) ring.init(C::CONSUMERS / C::PIXEL_RINGS);
        for (auto& ring : shared.weights) ring.init(C::CONSUMERS / C::WEIGHT_RINGS * C::CLUSTER);
        ptx::fence_mbarrier_init();
    }
    if constexpr (C::CLUSTER == 1) __syncthreads();
    else ptx::cluster_sync();  // the other block's barriers are ready as well

    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (warpgroup == C::CONSUMERS) {
        ptx::setmaxnreg_dec<C::PRODUCER_REGISTERS>();
        const int warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0);  // one for each ring
        if (threadIdx.x % 32 == 0) {
            if (warp < C::PIXEL_RINGS) produce_pixels<C>(shared, warp, &pixel_map, conv);
            else if (warp < C::PIXEL_RINGS + C::WEIGHT_RINGS)
                produce_weights<C>(shared, warp - C::PIXEL_RINGS, &weight_map, conv);
        }
    } else {
        ptx::setmaxnreg_inc<C::CONSUMER_REGISTERS>();
        consume<C>(shared, conv, buffers, warpgroup);
    }
    if constexpr (C::CLUSTER > 1) {
        __syncwarp();
        ptx::cluster_sync();  // nobody leaves while another may still write to its shared memory
    }
}

template <class C>
Launch prepare(const Conv& conv, const Buffers& buffers) {
    int multiprocessors;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    const dim3 grid(std::min(multiprocessors / C::CLUSTER, Tiles<C>::number(conv)) * C::CLUSTER);
    const CUtensorMap pixels = im2col_map(conv, buffers.x, C::SLAB, C::PIXELS);
    const CUtensorMap weights = weight_map(conv, buffers.repacked, C::SLAB, C::CHANNELS / C::CLUSTER);
    return {conv_kernel<C>, pixels, weights, conv, buffers, grid, C::THREADS, sizeof(Shared<C>), C::CLUSTER, true};
}

template <class C>
Kernel kernel() {
    const auto can_run = [](const Conv& conv) { return conv.c % C::SLAB == 0 && conv.k % C::TILE_CHANNELS == 0; };
    std::string name = "4_persistent " + std::to_string(C::TILE_CHANNELS) + "x" + std::to_string(C::TILE_PIXELS);
    name += ", lag " + std::to_string(C::LAG) + ", cluster of " + std::to_string(C::CLUSTER);
    return {name, true, can_run, prepare<C>};
}

// The first is for large layers, and the next two show what its lag and a cluster change. Then: shorter tiles, for
// what is left of the last wave; 128 channels; and layers that are too small for large tiles.
int main(int count, char** names) {
    const std::vector<Kernel> kernels{
        kernel<Config<2, BY_CHANNELS, 192, 5, 3, 3, 1>>(), kernel<Config<2, BY_CHANNELS, 192, 5, 3, 0, 1>>(),
        kernel<Config<2, BY_CHANNELS, 192, 5, 3, 3, 2>>(), kernel<Config<2, BY_CHANNELS, 144, 5, 4, 2, 1>>(),
        kernel<Config<2, BY_PIXELS, 192, 3, 4, 2, 1>>(),   kernel<Config<2, BY_PIXELS, 96, 5, 6, 2, 1>>(),
        kernel<Config<1, BY_CHANNELS, 96, 7, 7, 0, 1>>(),  kernel<Config<1, BY_CHANNELS, 48, 9, 9, 0, 1>>()};
    return run_layers(kernels, count, names);
}
