// average_pool:n=8:h=28:w=28:c=96:r=3:s=3:stride=2,2:pad=1,1,1,1:ceil_mode:x_type=int8:out_type=int8:
//     count_include_pad
//
//   y = clamp(round_half_to_even(sum(x_scale * (x - x_zero)) / taps / y_scale + y_zero), low, high)
//
// target    gfx1100
// config    pooling threads=128 vector=8
// launch    average_pool<<<169x1x1, 128, 0 B>>> when: call

@@ // The problem.
H=28 W=28 C=96 OH=15 OW=15
constexpr int R = 3;
constexpr int S = 3;
STRIDE_H=2 STRIDE_W=2 DILATION_H=1 DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 COUNT_PADDING=true

@@ // Derived values.
OUTPUTS=172800
constexpr int VECTORS = 12;  // vectors per output pixel

// The kernel's only parameter.
struct Arguments {
    const X* x;  // images, NHWC
    Output* y;  // output
    float x_scale;  // the scale of x
    int x_zero;  // the zero point of x
    float y_scale;  // the scale of y
    float y_zero;  // the zero point of y
    float low;  // the least output
    float high;  // the largest output
};

// Computes the averages of a window. The contract fixes the order and the rounding of the steps.
struct Window { float sums[VECTOR]; };

@@ 7dcb579b in pages/pooling-max-sm_90a.cu: __device__ __forceinline__ Window begin() {
@@ 3+2
    for (float& sum : window.sums) sum = 0.0f;

__device__ __forceinline__ float real(int x, const Arguments& args) {
    return tile::multiply(args.x_scale, static_cast<float>(x - args.x_zero));
}

__device__ __forceinline__ void take(Window& window, const X* address, const Arguments& args) {
    const Vector<X> x = load_vector(address);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) window.sums[i] = tile::add(window.sums[i], real(x.element[i], args));
}

__device__ __forceinline__ Output average(float sum, int taps, const Arguments& args) {
    float value = tile::divide(sum, static_cast<float>(taps));
    value = tile::add(tile::divide(value, args.y_scale), args.y_zero);
    return static_cast<Output>(tile::round_to_int(tile::clamp(value, args.low, args.high)));
}

__device__ __forceinline__ void write(
    Output* address, const Window& window, int taps, const Arguments& args) {
    Vector<Output> y;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) y.element[i] = average(window.sums[i], taps, args);
    store_vector(address, y);
}

extern "C" __global__ void __launch_bounds__(THREADS) average_pool(const Arguments args) {
    const X* const x = args.x;
    const unsigned vector = static_cast<unsigned>(tile::block_x()) * THREADS + tile::thread();
    if (vector >= OUTPUTS / VECTOR) return;
    const Place place = place_of(vector);
    Window window = begin();
    int taps = 0;
    for (int r = 0; r < R; ++r) {
        const int h = place.top + r * DILATION_H;
        if (!is_within(h, H)) continue;
        const X* const row = x + (place.image * H + h) * (W * C) + place.channel;
#pragma unroll
        for (int s = 0; s < S; ++s) {
            const int w = place.left + s * DILATION_W;
            if (!is_within(w, W)) continue;
            take(window, row + w * C, args);
            ++taps;
        }
    }
    if constexpr (COUNT_PADDING) taps = R * S;
    write(args.y + vector * VECTOR, window, taps, args);
}
