// conv2d:n=2:h=1:w=1:c=960:k=240:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:
//     activation=relu
//
// target    sm_90a
// config    gemv pixels=1 channels=2 lanes=16 threads=128
// launch    conv2d_gemv<<<30x1x1, 128, 1088 B>>> when: call

@@ // The problem.
IN_H=1 IN_W=1 C=960 C_GROUP=960 OUT_H=1 OUT_W=1 K=240 K_GROUP=240 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=2 REDUCTION=960 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int ROWS = 1;  // output pixels per thread
constexpr int CHANNELS = 2;  // output channels per thread
LANES=16 THREADS=128

@@ // Derived values.
constexpr int WORDS = 4;  // words per vector of a window
constexpr int VECTORS = 60;  // vectors per window
constexpr int OUTPUTS = 16;  // outputs per block
K_BLOCKS=15 SMEM_BYTES=1088

static_assert(C_GROUP == C && K_GROUP == K, "there must be one group");
static_assert(REDUCTION == C || (S == IN_W && OUT_H == 1 && OUT_W == 1 && REDUCTION == IN_H * IN_W * C),
              "the bytes of a window must be contiguous");
static_assert(!PADDED && PAD_TOP + PAD_LEFT == 0, "windows must lie in the image");
static_assert(DILATION_H > 0 && (S == 1 || DILATION_W == 1), "the taps of a row must be neighbours");
static_assert(THREADS % LANES == 0 && OUTPUTS <= THREADS, "OUTPUTS must not exceed THREADS");

// A team of LANES threads shares ROWS windows and the filters of CHANNELS output channels; each thread
// multiplies every LANES-th vector of them.
constexpr int TEAMS = THREADS / LANES, TEAM_K = TEAMS * CHANNELS;
struct Vector { unsigned word[WORDS]; };

struct Shared {
    // one column of padding, so that neither reads nor writes conflict on banks
    Sum product[OUTPUTS][LANES + 1];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

template <class T>
__device__ __forceinline__ Vector load_vector(const T* row, int i) {
    Vector vector;
    const auto words = tile::load_words<WORDS>(row + 4 * WORDS * i);
#pragma unroll
    for (int j = 0; j < WORDS; ++j) vector.word[j] = words.word[j];
    return vector;
}

// Returns the first byte of a pixel's window.
__device__ __forceinline__ const X* window_of(const X* x, int pixel) {
    const int n = pixel / (OUT_H * OUT_W), row = pixel / OUT_W % OUT_H, column = pixel % OUT_W;
    return x + ((n * IN_H + row * STRIDE_H) * IN_W + column * STRIDE_W) * C;
}

// Each block computes TEAM_K output channels of ROWS pixels. All loads are issued at once; the lanes' partial
// sums are added up in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS) conv2d_gemv(const Arguments args) {
    tile::launch_dependents();
    Shared& shared = tile::shared_memory<Shared>();
    const int first_k = tile::block_x() % K_BLOCKS * TEAM_K;
    const int first_pixel = tile::block_x() / K_BLOCKS * ROWS;
    const int lane = tile::thread() % LANES, team = tile::thread() / LANES;

    // The output that this thread finishes, and its channel parameters.
    const int out_k = first_k + tile::thread() % TEAM_K, out_row = tile::thread() / TEAM_K;
    const bool finishes = tile::thread() < OUTPUTS && out_k < K && first_pixel + out_row < PIXELS;
    const Channel channel = load_channel(args, finishes ? out_k : 0);
    const int index = finishes ? (first_pixel + out_row) * K + out_k : 0;
    Inputs inputs = {};
    tile::wait_on_dependency();
    // Activations are loaded as read-only data, so the compiler may move loads above the dependency wait. It
    // cannot move them above `kept`, which yields the address.
    const X* const x = tile::kept(args.x);

    const X* window[ROWS];
    const W* filter[CHANNELS];
#pragma unroll
    for (int p = 0; p < ROWS; ++p) {
        window[p] = window_of(x, first_pixel + p < PIXELS ? first_pixel + p : PIXELS - 1);
    }
#pragma unroll
    for (int n = 0; n < CHANNELS; ++n) {
        const int k = first_k + team * CHANNELS + n;
        filter[n] = args.w + static_cast<long long>(k < K ? k : K - 1) * REDUCTION;
    }
    Sum product[ROWS][CHANNELS] = {};
#pragma unroll 4
    for (int i = lane; i < VECTORS; i += LANES) {
        Vector w[CHANNELS];
#pragma unroll
        for (int n = 0; n < CHANNELS; ++n) w[n] = load_vector(filter[n], i);
#pragma unroll
        for (int p = 0; p < ROWS; ++p) {
            const Vector x = load_vector(window[p], i);
#pragma unroll
            for (int j = 0; j < WORDS; ++j) {
#pragma unroll
                for (int n = 0; n < CHANNELS; ++n) {
                    product[p][n] = dot<X_SIGNED, W_SIGNED>(x.word[j], w[n].word[j], product[p][n]);
                }
            }
        }
    }
#pragma unroll
    for (int p = 0; p < ROWS; ++p) {
#pragma unroll
        for (int n = 0; n < CHANNELS; ++n) {
            shared.product[p * TEAM_K + team * CHANNELS + n][lane] = product[p][n];
        }
    }
    tile::barrier();
    if (!finishes) return;
#pragma unroll
    for (int i = 0; i < LANES; ++i) inputs.acc += shared.product[tile::thread()][i];
    args.y[index] = narrow(finish(inputs, channel));
}
