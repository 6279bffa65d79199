// Kernel 3: each warp has one job.
//
// What is new:
//   - A producer warp does nothing but ask for slabs; two warpgroups, the consumers, do nothing but multiply. Nobody
//     waits for a __syncthreads: a second mbarrier in each slot, `empty`, counts the consumers that have multiplied
//     it.
//   - setmaxnreg: the producer's warpgroup gives its registers to the consumers, who need 128 each for sums alone.
//   - A consumer that waits for a slab does not keep the other one from multiplying, and whoever is ahead stays ahead
//     until the ring is empty: the tensor cores see two queues.
#include "harness.cuh"
#include "ptx.cuh"

constexpr int PIXELS = 128, SLAB = 128, STAGES = 4, CONSUMERS = 2, THREADS = 128 * (CONSUMERS + 1);
// 65536 registers in all: 168 a thread at the launch, then 240 for 256 threads and 24 for 128.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;

template <int CHANNELS>
struct Shared {
    alignas(1024) int8_t pixels[STAGES][PIXELS][SLAB];
    alignas(1024) int8_t weights[STAGES][CHANNELS][SLAB];
    uint64_t full[STAGES], empty[STAGES];
};

template <int CHANNELS>
__global__ void __launch_bounds__(THREADS, 1) conv_kernel(
    const __grid_constant__ CUtensorMap pixel_map, const __grid_constant__ CUtensorMap weight_map, const Conv conv,
    const Buffers buffers) {
    extern __shared__ __align__(1024) char memory[];
    auto& shared = *reinterpret_cast<Shared<CHANNELS>*>(memory);
    const int first_pixel = blockIdx.x * PIXELS, first_channel = blockIdx.y * CHANNELS;
    const int slabs_of_tap = conv.c / SLAB, slabs = conv.r * conv.s * slabs_of_tap;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            ptx::mbarrier_init(&shared.full[i], 1);
            ptx::mbarrier_init(&shared.empty[i], CONSUMERS);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    // The shuffle tells the compiler that all lanes of a warp take the same branch.
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (warpgroup == CONSUMERS) {
        ptx::setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == CONSUMERS * 128) {
            const int n = first_pixel / (conv.p() * conv.q());
            const int h = first_pixel / conv.q() % conv.p() * conv.stride - conv.pad;
            const int w = first_pixel % conv.q() * conv.stride - conv.pad;
            int slab = 0;
            for (int tap_h = 0; tap_h < conv.r * conv.dilation; tap_h += conv.dilation) {
                for (int tap_w = 0; tap_w < conv.s * conv.dilation; tap_w += conv.dilation) {
                    for (int c = 0; c < conv.c; c += SLAB, ++slab) {
                        const int slot = slab % STAGES, phase = slab / STAGES % 2;
                        uint64_t* const full = &shared.full[slot];
                        // The phase before the first counts as completed: a new ring is empty.
                        ptx::mbarrier_wait(&shared.empty[slot], phase ^ 1);
                        ptx::mbarrier_arrive_expect_tx(full, (PIXELS + CHANNELS) * SLAB);
                        ptx::load_im2col(shared.pixels[slot], &pixel_map, full, c, w, h, n, tap_w, tap_h);
                        ptx::load_tile(shared.weights[slot], &weight_map, full, slab * SLAB, first_channel);
                    }
                }
            }
        }
    } else {
        ptx::setmaxnreg_inc<CONSUMER_REGISTERS>();
        int sums[CHANNELS / 2];
        for (int slab = 0; slab < slabs; ++slab) {
            const int slot = slab % STAGES, phase = slab / STAGES % 2;
            ptx::mbarrier_wait(&shared.full[slot], phase);
            const uint64_t a = ptx::descriptor<SLAB>(shared.pixels[slot][warpgroup * 64]);
            const uint64_t b = ptx::descriptor<SLAB>(shared.weights[slot]);
            ptx::wgmma_fence();
#pragma unroll
            for (int k = 0; k < SLAB / 32; ++k) ptx::wgmma<CHANNELS>(sums, a + 2 * k, b + 2 * k, slab + k > 0);
            ptx::wgmma_commit_group();
            ptx::wgmma_wait_group<1>();  // this warpgroup has multiplied the slab before
            if (threadIdx.x % 128 == 0 && slab > 0) ptx::mbarrier_arrive(&shared.empty[(slab - 1) % STAGES]);
        }
        ptx::wgmma_wait_group<0>();
        ptx::sums_are_written(sums);
        store_columns<CHANNELS>(sums, conv, buffers, first_pixel + warpgroup * 64, first_channel);
    }
}

template <int CHANNELS>
Launch prepare(const Conv& conv, const Buffers& buffers) {
    const dim3 grid((conv.pixels() + PIXELS - 1) / PIXELS, conv.k / CHANNELS);
    const CUtensorMap pixels = im2col_map(conv, buffers.x, SLAB, PIXELS);
    const CUtensorMap weights = weight_map(conv, buffers.repacked, SLAB, CHANNELS);
    return {conv_kernel<CHANNELS>, pixels, weights, conv, buffers, grid, THREADS, sizeof(Shared<CHANNELS>)};
}

int main(int count, char** names) {
    const auto with_256 = [](const Conv& conv) { return conv.c % SLAB == 0 && conv.k % 256 == 0; };
    const auto with_128 = [](const Conv& conv) { return conv.c % SLAB == 0 && conv.k % 256 == 128; };
    const std::vector<Kernel> kernels{{"3_warps", false, with_256, prepare<256>},
                                      {"3_warps", false, with_128, prepare<128>}};
    return run_layers(kernels, count, names);
}
