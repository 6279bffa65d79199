// Kernel 1: the tensor cores of Hopper, fed in the simplest way.
//
// A convolution is a matrix product that nobody writes down: a row is an output pixel, a column an output channel,
// and the reduction goes over the filter's taps and the input channels. A block makes a tile of 128 pixels and
// CHANNELS channels. For each tap and each 128 input channels (a slab) all threads copy two pieces to shared
// memory,
//
//     pixels   128 x 128 bytes       the input under this tap, 0 where the tap lies outside of the image
//     weights  CHANNELS x 128 bytes  rows of the weights [k][r][s][c]
//
// and two warpgroups multiply them: each 64 of the pixels by all of the channels, m64nNk32 four times.
//
// What wgmma asks for:
//   - both factors in shared memory, "K-major": the reduction is contiguous in a row;
//   - the 128-byte swizzle: in row i the 16-byte chunk j lies in place j ^ (i % 8), so that the 8 rows that a
//     tensor core reads at a time touch all 32 banks once;
//   - fence_proxy_async between the stores of threads and wgmma, which reads through another path;
//   - fence, commit_group and wait_group around the instructions: they run while the threads go on.
#include "harness.cuh"
#include "ptx.cuh"

constexpr int PIXELS = 128, SLAB = 128, THREADS = 256;

template <int CHANNELS>
struct Shared {
    alignas(1024) int8_t pixels[PIXELS][SLAB];
    alignas(1024) int8_t weights[CHANNELS][SLAB];
};

__device__ int swizzled(int row, int chunk) { return (chunk ^ row % 8) * 16; }

template <int CHANNELS>
__global__ void __launch_bounds__(THREADS, 1) conv_kernel(
    const CUtensorMap, const CUtensorMap, const Conv conv, const Buffers buffers) {
    extern __shared__ __align__(1024) char memory[];
    auto& shared = *reinterpret_cast<Shared<CHANNELS>*>(memory);
    const int warpgroup = threadIdx.x / 128, chunk = threadIdx.x % 8, first_row = threadIdx.x / 8;
    const int first_pixel = blockIdx.x * PIXELS, first_channel = blockIdx.y * CHANNELS;
    constexpr int ROWS_AT_ONCE = THREADS / 8, ROWS = PIXELS / ROWS_AT_ONCE;

    // Where the window of each of this thread's pixels begins; a pixel behind the last one begins outside of the
    // image.
    int n[ROWS], h[ROWS], w[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int pixel = first_pixel + first_row + i * ROWS_AT_ONCE;
        n[i] = pixel / (conv.p() * conv.q());
        h[i] = n[i] < conv.n ? pixel / conv.q() % conv.p() * conv.stride - conv.pad : conv.h;
        w[i] = pixel % conv.q() * conv.stride - conv.pad;
    }

    int sums[CHANNELS / 2];
    int accumulate = 0;  // the first product overwrites what the registers hold
    for (int tap = 0; tap < conv.r * conv.s; ++tap) {
        const int tap_h = tap / conv.s * conv.dilation, tap_w = tap % conv.s * conv.dilation;
        for (int c = 0; c < conv.c; c += SLAB) {
            __syncthreads();  // everybody has multiplied the slab before
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                const int row = first_row + i * ROWS_AT_ONCE, y = h[i] + tap_h, x = w[i] + tap_w;
                const bool inside = y >= 0 && y < conv.h && x >= 0 && x < conv.w;
                const int8_t* from = buffers.x + ((size_t(n[i]) * conv.h + y) * conv.w + x) * conv.c + c + chunk * 16;
                *reinterpret_cast<uint4*>(&shared.pixels[row][swizzled(row, chunk)]) =
                    inside ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
            for (int row = first_row; row < CHANNELS; row += ROWS_AT_ONCE) {
                const size_t at = (size_t(first_channel + row) * conv.r * conv.s + tap) * conv.c + c + chunk * 16;
                *reinterpret_cast<uint4*>(&shared.weights[row][swizzled(row, chunk)]) =
                    __ldg(reinterpret_cast<const uint4*>(buffers.repacked + at));
            }
            ptx::fence_proxy_async();
            __syncthreads();

            const uint64_t a = ptx::descriptor<SLAB>(shared.pixels[warpgroup * 64]);
            const uint64_t b = ptx::descriptor<SLAB>(shared.weights);
            ptx::wgmma_fence();
#pragma unroll
            for (int k = 0; k < SLAB / 32; ++k) {
                ptx::wgmma<CHANNELS>(sums, a + 2 * k, b + 2 * k, accumulate);
                accumulate = 1;
            }
            ptx::wgmma_commit_group();
            ptx::wgmma_wait_group<0>();
        }
    }
    ptx::sums_are_written(sums);
    store_columns<CHANNELS>(sums, conv, buffers, first_pixel + warpgroup * 64, first_channel);
}

template <int CHANNELS>
Launch prepare(const Conv& conv, const Buffers& buffers) {
    const dim3 grid((conv.pixels() + PIXELS - 1) / PIXELS, conv.k / CHANNELS);
    return {conv_kernel<CHANNELS>, {}, {}, conv, buffers, grid, THREADS, sizeof(Shared<CHANNELS>)};
}

int main(int count, char** names) {
    const auto with_256 = [](const Conv& conv) { return conv.c % SLAB == 0 && conv.k % 256 == 0; };
    const auto with_128 = [](const Conv& conv) { return conv.c % SLAB == 0 && conv.k % 256 == 128; };
    const std::vector<Kernel> kernels{{"1_wgmma", false, with_256, prepare<256>},
                                      {"1_wgmma", false, with_128, prepare<128>}};
    return run_layers(kernels, count, names);
}
