// quantize:outer=128:channels=3:inner=50176:x_type=float32:out_type=uint8:zero_point:channels_last
//
//   y = clamp(round_half_to_even(x / scale) + zero_point,
//             0, 255) in float32, as uint8
//
// target    sm_90a
// config    elementwise threads=256 vector=8 unroll=1
// launch    quantize<<<3136x1x1, 256, 0 B>>> when: call

@@ // The problem.
constexpr int PIXELS = 6422528;  // pixels of all images
CHANNELS=3
constexpr int INNER = 50176;  // pixels per image

@@ // The config.
THREADS=256
constexpr int VECTOR = 8;  // neighbouring pixels per load

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors of each channel, per block
WORD=8 SHARED_SCALE=true

using X = float;
using Scale = float;
using Output = unsigned char;

@@ 785061c4 in whole/elementwise-quantize-tensor-sm_90a.cu: // Values derived from one scale, computed once for all elements that share it.
@@ 5+2
    float lowest;  // 0 - zero_point
    float highest;  // 255 - zero_point

// A thread converts VECTOR neighbouring pixels of every channel. Pixels are numbered through all images.
static_assert(INNER % VECTOR == 0, "a thread's pixels must be of one image");
static_assert(CHANNELS * VECTOR % WORD == 0, "a thread must have whole words");

// A thread's pixels in an array with one plane per channel: a vector in each plane.
template <class T>
struct Planes {
    Vector<T> of[CHANNELS];

    __device__ __forceinline__ T& at(int channel, int pixel) { return of[channel].element[pixel]; }

    __device__ __forceinline__ static unsigned place(unsigned first, int channel) {
        return (first / INNER * CHANNELS + channel) * INNER + first % INNER;
    }

    __device__ __forceinline__ void load(const T* array, unsigned first) {
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            of[channel] = load_vector(array + place(first, channel));
        }
    }

    __device__ __forceinline__ void store(T* array, unsigned first) const {
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            store_vector(array + place(first, channel), of[channel]);
        }
    }
};

template <class T>
struct alignas(WORD * sizeof(T)) Word { T element[WORD]; };

// A thread's pixels in an array whose channels are last: one contiguous run, moved in words.
template <class T>
struct Run {
    static constexpr int WORDS = CHANNELS * VECTOR / WORD;
    Word<T> words[WORDS];

    __device__ __forceinline__ T& at(int channel, int pixel) {
        const int i = pixel * CHANNELS + channel;
        return words[i / WORD].element[i % WORD];
    }

    __device__ __forceinline__ void load(const T* array, unsigned first) {
        const Word<T>* const from = reinterpret_cast<const Word<T>*>(array + first * CHANNELS);
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words[i] = from[i];
    }

    __device__ __forceinline__ void store(T* array, unsigned first) const {
        Word<T>* const to = reinterpret_cast<Word<T>*>(array + first * CHANNELS);
#pragma unroll
        for (int i = 0; i < WORDS; ++i) to[i] = words[i];
    }
};

using Read = Planes<X>;
using Written = Run<Output>;

// Converts channel by channel, so that the values derived from a scale are computed once for all pixels of
// the thread.
__device__ __forceinline__ void convert_pixels(const Arguments& args, Read (&x)[ROWS], Written (&y)[ROWS]) {
#pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) {
        const Prepared prepared = load_prepared(args, channel);
#pragma unroll
        for (int i = 0; i < ROWS * VECTOR; ++i) {
            const int row = i / VECTOR, pixel = i % VECTOR;
            y[row].at(channel, pixel) = convert(x[row].at(channel, pixel), prepared);
        }
    }
}

// A thread loads all of its pixels before it converts the first. VECTOR divides PIXELS.
extern "C" __global__ void __launch_bounds__(THREADS) quantize(const Arguments args) {
    tile::launch_dependents();
    tile::wait_on_dependency();
    Read x[ROWS] = {};
    Written y[ROWS];
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        const unsigned first = first_of_row(row);
        if (first < PIXELS) x[row].load(args.x, first);
    }
    convert_pixels(args, x, y);
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        const unsigned first = first_of_row(row);
        if (first < PIXELS) y[row].store(args.y, first);
    }
}
