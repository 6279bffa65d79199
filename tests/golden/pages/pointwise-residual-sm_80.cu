// conv2d:n=32:h=28:w=28:c=96:k=80:r=1:s=1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:x_zero_point:
//     y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_80
// config    pointwise batch=1 batches=2 atoms=10 pipeline_stages=3 warps=4 blocks_per_sm=2 weights_in_smem=1
// launch    conv2d_fold<<<80x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<15x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_pointwise<<<216x1x1, 128, 75840 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=96 C_GROUP=96 OUT_H=28 OUT_W=28 K=80 K_GROUP=80 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=25088 REDUCTION=96 X_SIGNED=false W_SIGNED=true

@@ // The config.
constexpr int BATCH = 1;  // groups of 16 pixels that a warp multiplies together
BATCHES=2
constexpr int ATOMS = 10;  // groups of 8 output channels whose sums a warp has at a time
constexpr int PIPELINE_STAGES = 3;  // units of a warp in shared memory
WARPS=4 BLOCKS_PER_SM=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 UNIT=32
constexpr int UNITS = 784;
constexpr int GRID_BLOCKS = 216;  // persistent blocks, whose warps take units one after the other
constexpr int STEPS = 3;  // steps of 32 input channels
constexpr int SLAB_K = 80;  // output channels whose sums a warp has at a time
ALL_SLABS=1 HAS_K_REMAINDER=false
constexpr int X_BYTES = 16;  // neighbouring channels that a lane reads at once
VECTOR_K=4 STAGE_BYTES=3120 SMEM_BYTES=75840 FOLD_THREADS=128

@@ 65edf821 in pages/pointwise-registers-sm_90a.cu: // A warp's buffers: the units that are loading, and the outputs of the one being multiplied.
@@ 4+1
    unsigned char y[PIPELINE_STAGES][UNIT * K];  // residuals, which the outputs overwrite

constexpr int SLAB_WORDS = STEPS * ATOMS * 32 * B_REGISTERS;

@@ 74bc827d in pages/pointwise-registers-sm_90a.cu: struct Shared {
@@ 2+0
    alignas(16) unsigned weights[ALL_SLABS * SLAB_WORDS];

// Begins to copy the weights, which stay in shared memory.
__device__ __forceinline__ void load_weights(const Arguments& args, Shared& shared, tile::Copies& copies) {
    for (int i = 4 * tile::thread(); i < ALL_SLABS * SLAB_WORDS; i += 4 * THREADS) {
        copies.copy<16>(tile::shared_address(&shared.weights[i]), args.fragments + i, true);
    }
    copies.commit();
}

__device__ __forceinline__ Filters load_filters(const Shared& shared, int slab) {
    Filters filters;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int j = 0; j < ATOMS; ++j) {
            const int index = ((slab * STEPS + step) * ATOMS + j) * 32 + tile::lane();
            const auto words = tile::load_shared<2>(shared.weights + 2 * index);
#pragma unroll
            for (int i = 0; i < B_REGISTERS; ++i) filters.word[step][j][i] = words.word[i];
        }
    }
    return filters;
}

// Begins to copy a unit of the input or of the residual into the warp's shared memory, or nothing past the
// last unit. Each is one contiguous array: all but its last bytes are copied in vectors of 16.
template <class T, int CHANNELS>
__device__ __forceinline__ void load_unit(
    const T* array, unsigned char* to, int unit, tile::Copies& copies) {
    static_assert(sizeof(T) == 1, "elements must be bytes");
    const int pixels = unit >= UNITS ? 0 : unit == UNITS - 1 ? PIXELS - (UNITS - 1) * UNIT : UNIT;
    const int bytes = pixels * CHANNELS;
    const T* const from = array + static_cast<long long>(unit < UNITS ? unit : 0) * (UNIT * CHANNELS);
#pragma unroll
    for (int first = 0; first < UNIT * CHANNELS; first += 16 * WARP_SIZE) {
        const int i = first + 16 * tile::lane();
        if (i + 16 <= bytes) copies.copy<16>(tile::shared_address(to + i), from + i, true);
    }
    if constexpr (PIXELS % UNIT * CHANNELS % 16 != 0) {
        const int last = bytes / 16 * 16 + tile::lane();
        if (last < bytes) to[last] = static_cast<unsigned char>(tile::load(from + last));
    }
}

// The residuals of a pixel's neighbouring outputs: the existing ones from channel `k` on.
struct Residuals { int of[AT_ONCE]; };
__device__ __forceinline__ Residuals load_residuals(const Residual* from, int k) {
    Residuals residuals = {};
#pragma unroll
    for (int u = 0; u < AT_ONCE; u += VECTOR_K) {
        if (HAS_K_REMAINDER && k + u >= K) continue;
        const auto vector = tile::load_vector<VECTOR_K>(from + u);
#pragma unroll
        for (int i = 0; i < VECTOR_K; ++i) residuals.of[u + i] = vector.element[i];
    }
    return residuals;
}

// Finishes one slab of 16 pixels, from pixel `first` of the unit on, into shared memory. An output may
// overwrite its own residual: the lane that writes it has already read it.
__device__ __forceinline__ void finish_pixels(
    const unsigned char* residual, unsigned char* y, int lane_k, int first, const Channel (&channels)[LANE_K],
    const Sums& sums) {
#pragma unroll
    for (int v = 0; v < LANE_K; v += AT_ONCE) {
        const int k = lane_k + v;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = (first + pixel_of_lane() + 8 * i) * K + k;
            const auto residuals = load_residuals(reinterpret_cast<const Residual*>(residual) + at, k);
            Finished finished[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; ++u) {
                const int n = v + u, d = i * 2 + n % 2;
                Inputs inputs = {sums.product[n / 2][d]};
                inputs.residual = residuals.of[u];
                finished[u] = finish(inputs, channels[n]);
            }
            put(reinterpret_cast<Output*>(y) + at, finished, k);
        }
    }
}

@@ 2984a142 in pages/pointwise-registers-sm_90a.cu: // Persistent blocks, as many as are resident at a time, whose warps take units of pixels in turn. No warp
@@ 8+2
    load_weights(args, shared, copies);
@@ 14+1
        const int unit = first_unit + stage * (GRID_BLOCKS * WARPS);
        load_unit<X, C>(args.x, stream.x[stage], unit, copies);
        load_unit<Residual, K>(args.residual, stream.y[stage], unit, copies);
        copies.commit();
@@ 16+3
    copies.wait<PIPELINE_STAGES>();
    tile::barrier();  // the block's weights are loaded
@@ 23+0
        const int next = unit + PIPELINE_STAGES * GRID_BLOCKS * WARPS;
        unsigned char* const y = stream.y[stage];
@@ 32+2
                load_unit<X, C>(args.x, stream.x[stage], next, copies);
@@ 35+1
#pragma unroll 1
@@ 37+1
                const Filters filters = load_filters(shared, slab);
@@ 52+1
                    finish_pixels(stream.y[stage], y, lane_k, first, channels, sums[n]);
@@ 57+1
        store_unit(args, y, unit);
        // The residuals overwrite the outputs: a lane loads into the bytes that it has itself stored.
        load_unit<Residual, K>(args.residual, stream.y[stage], next, copies);
        copies.commit();
