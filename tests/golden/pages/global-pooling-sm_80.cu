// global_average_pool:n=32:pixels=49:c=2048:x_type=uint8:out_type=uint8
//
//   y = clamp(round_half_to_even((sum(x) + offset) * scale), lowest, highest) + zero
//
// target    sm_80
// config    global_pooling threads=64 vector=2 lanes=16 unroll=4
// launch    global_average_pool<<<2048x1x1, 64, 512 B>>> when: call

@@ // The problem.
constexpr int PIXELS = 49;
C=2048

@@ // The config.
THREADS=64 VECTOR=2
constexpr int LANES = 16;
UNROLL=4

@@ // Derived values.
constexpr int GROUPS = 4;  // threads that share the pixels
BLOCKS_OF_IMAGE=64 SMEM_BYTES=512

using X = unsigned char;
using Output = unsigned char;

// The kernel's only parameter.
struct Arguments {
    const X* x;  // images, NHWC
    Output* y;  // average of each image and channel
    int offset;  // -x_zero * pixels
    float scale;  // x_scale / (y_scale * pixels)
    float lowest;  // the least output, less zero
    float highest;  // the largest output, less zero
    int zero;  // the zero point of y
};

// Computes the average of a channel from its sum. The contract fixes the order and the rounding of the steps.
__device__ __forceinline__ Output average(int sum, const Arguments& args) {
    const float value = tile::multiply(static_cast<float>(sum + args.offset), args.scale);
    const int rounded = tile::round_to_int(tile::clamp(value, args.lowest, args.highest));
    return static_cast<Output>(rounded + args.zero);
}

// Each block computes LANES vectors of one image's channels; GROUPS threads split the pixels of each vector.
struct Shared { int sums[GROUPS][LANES * VECTOR]; };
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");
static_assert(GROUPS * LANES == THREADS, "every thread has a vector of channels and a share of the pixels");

extern "C" __global__ void __launch_bounds__(THREADS) global_average_pool(const Arguments args) {
    const unsigned block = static_cast<unsigned>(tile::block_x());
    const unsigned image = block / BLOCKS_OF_IMAGE;
    const int first = static_cast<int>(block % BLOCKS_OF_IMAGE) * LANES * VECTOR;
    const int lane = tile::thread() % LANES, group = tile::thread() / LANES;
    const int channel = first + lane * VECTOR;
    int sums[VECTOR] = {};
    if (channel < C) {
        const X* const x = args.x + image * (PIXELS * C) + channel;
#pragma unroll UNROLL
        for (int pixel = group; pixel < PIXELS; pixel += GROUPS) {
            const Vector<X> loaded = load_vector(x + pixel * C);
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) sums[i] += loaded.element[i];
        }
    }
    Shared& shared = tile::shared_memory<Shared>();
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) shared.sums[group][lane * VECTOR + i] = sums[i];
    tile::barrier();
    for (int i = tile::thread(); i < LANES * VECTOR && first + i < C; i += THREADS) {
        int sum = 0;
        for (int each = 0; each < GROUPS; ++each) sum += shared.sums[each][i];
        args.y[image * C + first + i] = average(sum, args);
    }
}
