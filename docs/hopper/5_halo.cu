// Kernel 5: a 3x3 convolution of 64 channels, whose input tile comes once with its halo, and whose nine taps read it
// in place.
//
// With 64 channels a tap is two products only, and kernel 4 fetches the same pixels nine times from the L2 cache to
// feed them. What is new:
//   - A tile is 8 pixels wide and TILE_H high. Its window, 10 pixels wide, is one TMA copy: a box of a
//     tensor of four dimensions, with zeros outside of the image.
//   - A tap's pixels are read through a descriptor that begins at the tap's first pixel. The pixels of a row of the
//     tile follow each other; from one row to the next it is WINDOW_W pixels. So a group of eight of the product's
//     columns is a row of the tile, and the stride between groups is the window's width. The hardware swizzles by
//     the bits of the address: a window that begins at a multiple of 1024 bytes can be read from any pixel on.
//   - The weights of all nine taps stay in shared memory: 36 KB.
//   - A consumer makes a whole tile. Consumers take turns: each begins its products when the one before has issued
//     its own, so that one multiplies while the others make outputs of their sums.
//   - Outputs go through shared memory, since a lane has two channels of a pixel and a line of memory has 64.
#include "harness.cuh"
#include "ptx.cuh"

constexpr int CHANNELS = 64, TAPS = 9, TILE_W = 8, WINDOW_W = TILE_W + 2;

template <int TILE_H_, int CONSUMERS_, int STAGES_>
struct Config {
    static constexpr int TILE_H = TILE_H_, CONSUMERS = CONSUMERS_, STAGES = STAGES_, PIXELS = TILE_W * TILE_H;
    static constexpr int THREADS = 128 * (CONSUMERS + 1);
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 40;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 152 : 232;
};

template <class C>
struct Shared {
    alignas(1024) int8_t weights[TAPS][CHANNELS][CHANNELS];
    struct alignas(1024) Window { int8_t pixels[C::TILE_H + 2][WINDOW_W][CHANNELS]; } windows[C::STAGES];
    struct alignas(1024) Outputs { int8_t pixels[C::PIXELS][CHANNELS]; } outputs[C::CONSUMERS];
    uint64_t full[C::STAGES], empty[C::STAGES], weights_there;
    uint64_t issued[C::CONSUMERS];  // completes when a consumer has issued the products of a tile
};

// The tiles of a block, or every CONSUMERS-th of them, and the slot and the phase of each one's window.
template <class C>
struct Tiles {
    int across, down, count, tile, turn;
    static __host__ __device__ int number(const Conv& conv) {
        return (conv.w + TILE_W - 1) / TILE_W * ((conv.h + C::TILE_H - 1) / C::TILE_H) * conv.n;
    }
    __device__ Tiles(const Conv& conv, int first)
        : across((conv.w + TILE_W - 1) / TILE_W),
          down((conv.h + C::TILE_H - 1) / C::TILE_H),
          count(number(conv)),
          tile(blockIdx.x + first * gridDim.x),
          turn(first) {}
    __device__ bool any() const { return tile < count; }
    __device__ void advance(int tiles) { tile += tiles * gridDim.x, turn += tiles; }
    __device__ int column() const { return tile % across * TILE_W; }
    __device__ int row() const { return tile / across % down * C::TILE_H; }
    __device__ int image() const { return tile / across / down; }
    __device__ int slot() const { return turn % C::STAGES; }
    __device__ int phase() const { return turn / C::STAGES % 2; }
};

// Where the pixels of a tap lie: a row of the tile is a group of eight columns.
__device__ __forceinline__ uint64_t window_descriptor(const void* window) {
    constexpr uint64_t GROUP = WINDOW_W * CHANNELS >> 4, SWIZZLE_64 = 2;
    return (ptx::shared_address(window) & 0x3ffff) >> 4 | 1ull << 16 | GROUP << 32 | SWIZZLE_64 << 62;
}

template <class C>
__device__ __forceinline__ void produce(
    Shared<C>& shared, const CUtensorMap* pixel_map, const CUtensorMap* weight_map, const Conv& conv) {
    ptx::mbarrier_arrive_expect_tx(&shared.weights_there, sizeof shared.weights);
    for (int tap = 0; tap < TAPS; ++tap) {
        ptx::load_tile(shared.weights[tap], weight_map, &shared.weights_there, tap * CHANNELS, 0);
    }
    ptx::wait_on_dependency();
    for (Tiles<C> tiles(conv, 0); tiles.any(); tiles.advance(1)) {
        uint64_t* const full = &shared.full[tiles.slot()];
        ptx::mbarrier_wait(&shared.empty[tiles.slot()], tiles.phase() ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, sizeof shared.windows[0].pixels);
        ptx::load_box(&shared.windows[tiles.slot()], pixel_map, full, 0, tiles.column() - 1, tiles.row() - 1,
                      tiles.image());
    }
}

// A tile's outputs: the 16 bytes of a warp's channels of a pixel, in the order in which its rows of the product are.
// They are swizzled so that neither the warps that write them nor those that read them share a bank.
__device__ __forceinline__ int place(int pixel, int part) {
    return pixel * CHANNELS + (part ^ (pixel / 2 % 4)) * 16;
}

// Sums to bytes in shared memory. Row 16 u + 8 h + g of the product is channel 16 u + 2 g + h, so a lane has two
// neighbouring channels: what `stmatrix` transposes as 16 bits.
template <int PIXELS>
__device__ __forceinline__ void stage(
    int8_t* outputs, const int (&sums)[PIXELS / 2], const int2& bias, const float2& scale) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    static_assert(PIXELS % 16 == 0, "the last matrices are two or four");
#pragma unroll
    for (int j = 0; j < PIXELS / 8; j += 4) {
        uint32_t words[4] = {};
#pragma unroll
        for (int a = 0; a < 4 && j + a < PIXELS / 8; ++a) {
            const int* const four = &sums[4 * (j + a)];
            const uint32_t second =
                pack(requantize(four[1], bias.x, scale.x), requantize(four[3], bias.y, scale.y), 0);
            words[a] = pack(requantize(four[0], bias.x, scale.x), requantize(four[2], bias.y, scale.y), second);
        }
        const int8_t* const to = outputs + place(8 * j + lane, warp);
        if (j + 4 <= PIXELS / 8) ptx::store_matrices(to, words[0], words[1], words[2], words[3]);
        else ptx::store_matrices(to, words[0], words[1]);
    }
}

// From shared to device memory, 16 bytes a thread.
template <class C>
__device__ __forceinline__ void store(
    const int8_t* outputs, const Conv& conv, const Buffers& buffers, const Tiles<C>& tiles) {
    for (int i = threadIdx.x % 128; i < C::PIXELS * 4; i += 128) {
        const int pixel = i / 4, h = tiles.row() + pixel / TILE_W, w = tiles.column() + pixel % TILE_W;
        if (h >= conv.h || w >= conv.w) continue;
        int8_t* const to = buffers.y + ((size_t(tiles.image()) * conv.h + h) * conv.w + w) * CHANNELS;
        reinterpret_cast<uint4*>(to)[i % 4] = *reinterpret_cast<const uint4*>(outputs + place(pixel, i % 4));
    }
}

template <class C>
__device__ __forceinline__ void consume(
    Shared<C>& shared, const Conv& conv, const Buffers& buffers, int consumer) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool signals = threadIdx.x % 128 == 0;
    const int channel = 16 * warp + lane / 4 * 2;
    const int2 bias = __ldg(reinterpret_cast<const int2*>(buffers.bias + channel));
    const float2 scale = __ldg(reinterpret_cast<const float2*>(buffers.scale + channel));
    const uint64_t filters = ptx::descriptor<CHANNELS>(shared.weights);
    int8_t* const outputs = shared.outputs[consumer].pixels[0];
    ptx::mbarrier_wait(&shared.weights_there, 0);
    for (Tiles<C> tiles(conv, consumer); tiles.any(); tiles.advance(C::CONSUMERS)) {
        ptx::mbarrier_wait(&shared.full[tiles.slot()], tiles.phase());
        const int before = tiles.turn - 1;  // the tile whose products were issued last
        if (before >= 0) {
            ptx::mbarrier_wait(&shared.issued[before % C::CONSUMERS], before / C::CONSUMERS % 2);
        }
        const uint64_t window = window_descriptor(&shared.windows[tiles.slot()]);
        int sums[C::PIXELS / 2];
        ptx::wgmma_fence();
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) {
            const int pixel = tap / 3 * WINDOW_W + tap % 3;
#pragma unroll
            for (int c = 0; c < CHANNELS; c += 32) {
                ptx::wgmma<C::PIXELS>(sums, filters + (tap * CHANNELS * CHANNELS + c) / 16,
                                      window + (pixel * CHANNELS + c) / 16, tap + c > 0);
            }
        }
        ptx::wgmma_commit_group();
        // From each warp, once it has seen that it was its turn: one that has not would miss a phase.
        if (lane == 0) ptx::mbarrier_arrive(&shared.issued[consumer]);
        ptx::wgmma_wait_group<0>();
        if (signals) ptx::mbarrier_arrive(&shared.empty[tiles.slot()]);
        ptx::sums_are_written(sums);
        ptx::barrier_of_warpgroup(consumer);  // every thread has read the outputs of the tile before
        stage<C::PIXELS>(outputs, sums, bias, scale);
        ptx::barrier_of_warpgroup(consumer);
        store<C>(outputs, conv, buffers, tiles);
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
        for (int i = 0; i < C::STAGES; ++i) {
            ptx::mbarrier_init(&shared.full[i], 1);
            ptx::mbarrier_init(&shared.empty[i], 1);
        }
        for (uint64_t& issued : shared.issued) ptx::mbarrier_init(&issued, 4);  // the warps of a consumer
        ptx::mbarrier_init(&shared.weights_there, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (warpgroup == C::CONSUMERS) {
        ptx::setmaxnreg_dec<C::PRODUCER_REGISTERS>();
        if (threadIdx.x % 128 == 0) produce<C>(shared, &pixel_map, &weight_map, conv);
    } else {
        ptx::setmaxnreg_inc<C::CONSUMER_REGISTERS>();
        consume<C>(shared, conv, buffers, warpgroup);
    }
}

// In front of the device's part: a row of 16 u + 8 h + g is channel 16 u + 2 g + h.
__global__ void repack_rows(Conv conv, const int8_t* weight, int8_t* repacked) {
    const int reduction = conv.r * conv.s * conv.c, to = blockIdx.x;
    const int from = to / 16 * 16 + to % 8 * 2 + to % 16 / 8;
    for (int i = threadIdx.x; i < reduction; i += blockDim.x) {
        repacked[size_t(to) * reduction + i] = weight[size_t(from) * reduction + i];
    }
}

template <class C>
Launch prepare(const Conv& conv, const Buffers& buffers) {
    repack_rows<<<conv.k, 128>>>(conv, buffers.weight, buffers.repacked);
    CHECK(cudaDeviceSynchronize());
    int multiprocessors;
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    const dim3 grid(std::min(multiprocessors, Tiles<C>::number(conv)));
    const CUtensorMap windows = box_map(conv, buffers.x, WINDOW_W, C::TILE_H + 2);
    const CUtensorMap weights = weight_map(conv, buffers.repacked, CHANNELS, CHANNELS);
    return {conv_kernel<C>, windows, weights, conv, buffers, grid, C::THREADS, sizeof(Shared<C>), 1, true};
}

template <class C>
Kernel kernel() {
    const auto can_run = [](const Conv& conv) {
        return conv.c == CHANNELS && conv.k == CHANNELS && conv.r == 3 && conv.s == 3 && conv.stride == 1 &&
               conv.dilation == 1 && conv.pad == 1;
    };
    const std::string tile = std::to_string(TILE_W) + "x" + std::to_string(C::TILE_H);
    return {"5_halo " + tile + ", " + std::to_string(C::CONSUMERS) + " consumers", false, can_run, prepare<C>};
}

int main(int count, char** names) {
    const std::vector<Kernel> kernels{
        kernel<Config<14, 2, 6>>(), kernel<Config<14, 3, 6>>(), kernel<Config<28, 2, 4>>(), kernel<Config<8, 3, 8>>()};
    return run_layers(kernels, count, names);
}
