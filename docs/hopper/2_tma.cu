// Kernel 2: TMA fills a ring of slots in shared memory, ahead of the products.
//
// What is new:
//   - One thread asks for a whole slab with two instructions. For the pixels it names only the first one, as (c, w,
//     h, n) of the input under the filter's first tap, and the tap as an offset: the engine walks the output pixels
//     by itself, from row to row and from image to image, in steps of the stride, and writes 0 outside of the
//     image. This is im2col by hardware: no thread computes an address, a border costs nothing, and stride,
//     dilation and padding are numbers in a tensor map that the host writes.
//   - The engine writes with the swizzle that wgmma reads.
//   - An mbarrier in each slot counts the bytes that have arrived. So STAGES slabs are under way while one is
//     multiplied, and no register holds them meanwhile.
//   - A wgmma group is still running when the next one is issued: the wait is for the one before.
#include "harness.cuh"
#include "ptx.cuh"

constexpr int PIXELS = 128, SLAB = 128, STAGES = 4, THREADS = 256;

template <int CHANNELS>
struct Shared {
    alignas(1024) int8_t pixels[STAGES][PIXELS][SLAB];
    alignas(1024) int8_t weights[STAGES][CHANNELS][SLAB];
    uint64_t full[STAGES];
};

template <int CHANNELS>
__global__ void __launch_bounds__(THREADS, 1) conv_kernel(
    const __grid_constant__ CUtensorMap pixel_map, const __grid_constant__ CUtensorMap weight_map, const Conv conv,
    const Buffers buffers) {
    extern __shared__ __align__(1024) char memory[];
    auto& shared = *reinterpret_cast<Shared<CHANNELS>*>(memory);
    const int warpgroup = threadIdx.x / 128;
    const int first_pixel = blockIdx.x * PIXELS, first_channel = blockIdx.y * CHANNELS;
    const int slabs_of_tap = conv.c / SLAB, slabs = conv.r * conv.s * slabs_of_tap;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) ptx::mbarrier_init(&shared.full[i], 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();

    // The input position under the first tap of the first pixel. Only thread 0 uses it.
    const int n = first_pixel / (conv.p() * conv.q());
    const int h = first_pixel / conv.q() % conv.p() * conv.stride - conv.pad;
    const int w = first_pixel % conv.q() * conv.stride - conv.pad;
    const auto load = [&](int slab) {
        const int slot = slab % STAGES, tap = slab / slabs_of_tap, c = slab % slabs_of_tap * SLAB;
        const int tap_h = tap / conv.s * conv.dilation, tap_w = tap % conv.s * conv.dilation;
        uint64_t* const full = &shared.full[slot];
        ptx::mbarrier_arrive_expect_tx(full, (PIXELS + CHANNELS) * SLAB);
        ptx::load_im2col(shared.pixels[slot], &pixel_map, full, c, w, h, n, tap_w, tap_h);
        ptx::load_tile(shared.weights[slot], &weight_map, full, slab * SLAB, first_channel);
    };
    if (threadIdx.x == 0) {
        for (int slab = 0; slab < STAGES && slab < slabs; ++slab) load(slab);
    }

    int sums[CHANNELS / 2];
    for (int slab = 0; slab < slabs; ++slab) {
        const int slot = slab % STAGES;
        ptx::mbarrier_wait(&shared.full[slot], slab / STAGES % 2);
        const uint64_t a = ptx::descriptor<SLAB>(shared.pixels[slot][warpgroup * 64]);
        const uint64_t b = ptx::descriptor<SLAB>(shared.weights[slot]);
        ptx::wgmma_fence();
#pragma unroll
        for (int k = 0; k < SLAB / 32; ++k) ptx::wgmma<CHANNELS>(sums, a + 2 * k, b + 2 * k, slab + k > 0);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();
        __syncthreads();  // both warpgroups have multiplied the slab before: its slot is free
        if (threadIdx.x == 0 && slab > 0 && slab - 1 + STAGES < slabs) load(slab - 1 + STAGES);
    }
    ptx::wgmma_wait_group<0>();
    ptx::sums_are_written(sums);
    store_columns<CHANNELS>(sums, conv, buffers, first_pixel + warpgroup * 64, first_channel);
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
    const std::vector<Kernel> kernels{{"2_tma", false, with_256, prepare<256>},
                                      {"2_tma", false, with_128, prepare<128>}};
    return run_layers(kernels, count, names);
}
