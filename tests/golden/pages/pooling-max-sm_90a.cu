// max_pool:n=32:h=112:w=112:c=64:r=3:s=3:stride=2,2:pad=1,1,1,1:x_type=int8
//
//   y = the largest of the window
//
// target    sm_90a
// config    pooling threads=128 vector=8
// launch    max_pool<<<6272x1x1, 128, 0 B>>> when: call

@@ // The problem.
H=112 W=112 C=64 OH=56 OW=56
constexpr int R = 3;
constexpr int S = 3;
STRIDE_H=2 STRIDE_W=2 DILATION_H=1 DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 COUNT_PADDING=false

@@ // The config.
THREADS=128 VECTOR=8

@@ // Derived values.
OUTPUTS=6422528
constexpr int VECTORS = 8;  // vectors per output pixel

// Returns the larger of each pair of 16-bit halves of two words.
template <bool IS_SIGNED>
__device__ __forceinline__ unsigned larger_halves(unsigned a, unsigned b) {
    return IS_SIGNED ? __vmaxs2(a, b) : __vmaxu2(a, b);
}

// The kernel's only parameter.
struct Arguments {
    const X* x;  // images, NHWC
    Output* y;  // output
};

// The largest elements of a window, in words of four channels: bytes 1 and 3 of each word as the upper bytes
// of 16-bit halves, then bytes 0 and 2. The upper bytes decide which half is larger; the lower ones matter
// only if these are equal.
constexpr int WORDS = VECTOR < 4 ? 1 : VECTOR / 4;
constexpr bool IS_SIGNED = X(-1) < X(0);
// the least element, which stands for padding, in all four bytes
constexpr unsigned LEAST = IS_SIGNED ? 0x80808080u : 0u;
struct Window { unsigned odd[WORDS], even[WORDS]; };

// Loads a vector, which may be smaller than a word.
__device__ __forceinline__ tile::Words<WORDS> load_channels(const X* address) {
    if constexpr (VECTOR >= 4) return tile::load_words<WORDS>(address);
    tile::Words<WORDS> channels = {};
#pragma unroll
    for (int i = 0; i < VECTOR && i < 4; ++i) {
        const unsigned byte = static_cast<unsigned char>(tile::load(address + i));
        channels.word[0] |= byte << 8 * i;
    }
    return channels;
}

__device__ __forceinline__ Window begin() {
    Window window;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) window.odd[i] = window.even[i] = LEAST;
    return window;
}

__device__ __forceinline__ void take(Window& window, const X* address, const Arguments&) {
    const tile::Words<WORDS> channels = load_channels(address);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        window.odd[i] = tile::larger_halves<IS_SIGNED>(window.odd[i], channels.word[i]);
        window.even[i] = tile::larger_halves<IS_SIGNED>(window.even[i], channels.word[i] << 8);
    }
}

__device__ __forceinline__ void write(Output* address, const Window& window, int, const Arguments&) {
    tile::Words<WORDS> largest;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) largest.word[i] = tile::pick<1, 5, 3, 7>(window.even[i], window.odd[i]);
    if constexpr (VECTOR >= 4) {
        *reinterpret_cast<tile::Words<WORDS>*>(address) = largest;
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) address[i] = static_cast<Output>(largest.word[0] >> 8 * i);
    }
}

// A thread's outputs: VECTOR neighbouring channels of one pixel.
struct Place {
    unsigned image;
    int top, left;  // first row and column of the window, which may be in the padding
    int channel;
};

__device__ __forceinline__ Place place_of(unsigned vector) {
    const unsigned pixel = vector / VECTORS;
    Place place;
    place.image = pixel / (OH * OW);
    place.top = static_cast<int>(pixel / OW % OH) * STRIDE_H - PAD_TOP;
    place.left = static_cast<int>(pixel % OW) * STRIDE_W - PAD_LEFT;
    place.channel = static_cast<int>(vector % VECTORS) * VECTOR;
    return place;
}

__device__ __forceinline__ bool is_within(int at, int extent) { return at >= 0 && at < extent; }

extern "C" __global__ void __launch_bounds__(THREADS) max_pool(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    // Activations are loaded as read-only data, so the compiler may move loads above the dependency wait. It
    // cannot move them above `kept`, which yields the address.
    const X* const x = tile::kept(args.x);
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
