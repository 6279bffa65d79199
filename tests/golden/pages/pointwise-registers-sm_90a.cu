// conv2d:n=32:h=28:w=28:c=24:k=58:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:bias=int32:
//     activation=relu
//
// target    sm_90a
// config    pointwise batch=2 batches=1 atoms=2 pipeline_stages=3 warps=4 blocks_per_sm=2 weights_in_smem=0
// launch    conv2d_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_pointwise<<<264x1x1, 128, 17216 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=24 C_GROUP=24 OUT_H=28 OUT_W=28 K=58 K_GROUP=58 S=1 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=25088 REDUCTION=24 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int BATCH = 2;  // groups of 16 pixels that a warp multiplies together
BATCHES=1
constexpr int ATOMS = 2;  // groups of 8 output channels whose sums a warp has at a time
constexpr int PIPELINE_STAGES = 3;  // units of a warp in shared memory
WARPS=4 BLOCKS_PER_SM=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 UNIT=32
constexpr int UNITS = 784;
constexpr int GRID_BLOCKS = 264;  // persistent blocks, whose warps take units one after the other
constexpr int STEPS = 1;  // steps of 32 input channels
constexpr int SLAB_K = 16;  // output channels whose sums a warp has at a time
ALL_SLABS=4 HAS_K_REMAINDER=true
constexpr int X_BYTES = 8;  // neighbouring channels that a lane reads at once
VECTOR_K=2 STAGE_BYTES=816 SMEM_BYTES=17216

static_assert(S == 1 && REDUCTION == C && C_GROUP == C && K_GROUP == K, "the filter must be 1x1");
static_assert(!PADDED && PAD_TOP + PAD_LEFT == 0 && OUT_H == IN_H && OUT_W == IN_W,
              "every pixel must have an output");
static_assert(PIXELS % (IN_H * IN_W) == 0, "PIXELS must be those of whole images");
static_assert(STRIDE_H * STRIDE_W * DILATION_H * DILATION_W > 0, "strides and dilations must be positive");
static_assert(STEPS * 32 >= C && ALL_SLABS * SLAB_K >= K && SLAB_K == 8 * ATOMS, "channels must be covered");
static_assert(UNIT == 16 * BATCH * BATCHES && UNITS * UNIT >= PIXELS, "units must cover all pixels");

// mma.sync.m16n8k32: A is 16 pixels, B is 8 output channels, each by 32 input channels.
[[maybe_unused]] constexpr bool A_SIGNED = X_SIGNED, B_SIGNED = W_SIGNED;
constexpr int A_REGISTERS = 4, B_REGISTERS = 2, D_REGISTERS = 4;

// Returns the input channel of byte `i` of register `half` of B in a lane. Both factors use the channel order
// in which a lane reads X_BYTES neighbouring channels of a pixel at once; 16 bytes serve two steps.
__device__ __forceinline__ int channel_of(int step, int half, int lane, int i) {
    const int quarter = lane % 4;
    if (X_BYTES == 16 && step / 2 * 2 + 1 < STEPS) {
        return step / 2 * 64 + quarter * 16 + step % 2 * 8 + half * 4 + i;
    }
    return step * 32 + (X_BYTES >= 8 ? quarter * 8 + half * 4 : half * 16 + quarter * 4) + i;
}

// The index of that weight in its output channel. Past a pixel's last channel lies the next pixel: those
// bytes are multiplied by zero.
struct Element { int at; bool exists; };
__device__ __forceinline__ Element element_of(int, int step, int half, int lane, int i) {
    const int c = channel_of(step, half, lane, i);
    return {c, c < C};
}

// A warp's buffers: the units that are loading, and the outputs of the one being multiplied.
struct alignas(16) Stream {
    unsigned char x[PIPELINE_STAGES][STAGE_BYTES];
    unsigned char y[UNIT * K * sizeof(Output)];
};

struct Shared {
    Stream stream[WARPS];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Begins to copy a unit of pixels into the warp's shared memory, or nothing past the last unit. The input is
// one contiguous array: all but its last bytes are copied in vectors of 16.
__device__ __forceinline__ void load_unit(
    const Arguments& args, unsigned char* to, int unit, tile::Copies& copies) {
    const int pixels = unit >= UNITS ? 0 : unit == UNITS - 1 ? PIXELS - (UNITS - 1) * UNIT : UNIT;
    const int bytes = pixels * C;
    const X* const from = args.x + static_cast<long long>(unit < UNITS ? unit : 0) * (UNIT * C);
#pragma unroll
    for (int first = 0; first < UNIT * C; first += 16 * WARP_SIZE) {
        const int i = first + 16 * tile::lane();
        if (i + 16 <= bytes) copies.copy<16>(tile::shared_address(to + i), from + i, true);
    }
    if constexpr (PIXELS % UNIT * C % 16 != 0) {
        const int last = bytes / 16 * 16 + tile::lane();
        if (last < bytes) to[last] = static_cast<unsigned char>(tile::load(from + last));
    }
    copies.commit();
}

// Maps the lanes of a fragment's row to eight pixels, so that lanes which read 16 bytes at the same time
// access different banks.
__device__ __forceinline__ int pixel_of_lane() {
    constexpr bool BY_FOUR = X_BYTES == 16 && C * 4 % 128 == 64, BY_TWO = X_BYTES == 16 && C * 2 % 128 == 64;
    const int row = tile::lane() / 4;
    if constexpr (BY_FOUR) return row % 2 * 4 + row / 2 % 2 * 2 + row / 4;
    if constexpr (BY_TWO) return row / 4 * 4 + row % 2 * 2 + row / 2 % 2;
    return row;
}

// Sixteen pixels: the A fragments of all steps.
struct Pixels { unsigned word[STEPS][A_REGISTERS]; };

__device__ __forceinline__ Pixels load_pixels(const unsigned char* sixteen) {
    Pixels pixels;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int begin = (pixel_of_lane() + 8 * i) * C;
        const unsigned char* const pixel = sixteen + begin;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const auto* const words = reinterpret_cast<const unsigned*>(pixel + 32 * step);
            const int quarter = tile::lane() % 4;
            if (X_BYTES == 16 && step / 2 * 2 + 1 < STEPS) {
                if (step % 2 == 1) continue;
                const auto four = tile::load_shared<4>(words + 4 * quarter);
                pixels.word[step][i] = four.word[0];
                pixels.word[step][2 + i] = four.word[1];
                pixels.word[step + 1][i] = four.word[2];
                pixels.word[step + 1][2 + i] = four.word[3];
            } else if (X_BYTES >= 8) {
                const auto two = tile::load_shared<2>(words + 2 * quarter);
                pixels.word[step][i] = two.word[0];
                pixels.word[step][2 + i] = two.word[1];
            } else {
                pixels.word[step][i] = tile::load_shared<1>(words + quarter).word[0];
                pixels.word[step][2 + i] = tile::load_shared<1>(words + quarter + 4).word[0];
            }
        }
    }
    return pixels;
}

// Outputs finished together: at least two, because packing takes two.
constexpr int AT_ONCE = VECTOR_K < 2 ? 2 : VECTOR_K;

// Writes neighbouring outputs of a pixel to shared memory: the existing ones from channel `k` on.
__device__ __forceinline__ void put(Output* to, const Finished (&finished)[AT_ONCE], int k) {
    if constexpr (VECTOR_K > 2) {
        if (!HAS_K_REMAINDER || k < K) write(to, finished);
        return;
    }
    const unsigned packed = tile::pack<Packed>(finished[0], finished[1], 0);
    const Output two[2] = {static_cast<Output>(packed & 0xffu), static_cast<Output>(packed >> 8)};
    if constexpr (VECTOR_K == 2) {
        struct alignas(2 * sizeof(Output)) Pair { Output element[2]; };
        if (!HAS_K_REMAINDER || k < K) *reinterpret_cast<Pair*>(to) = {{two[0], two[1]}};
    } else {
        if (!HAS_K_REMAINDER || k < K) to[0] = two[0];
        if (!HAS_K_REMAINDER || k + 1 < K) to[1] = two[1];
    }
}

// Finishes one slab of 16 pixels, from pixel `first` of the unit on, into shared memory.
__device__ __forceinline__ void finish_pixels(
    [[maybe_unused]] const Arguments& args, unsigned char* y, int lane_k, [[maybe_unused]] int unit,
    int first, const Channel (&channels)[LANE_K], const Sums& sums) {
#pragma unroll
    for (int v = 0; v < LANE_K; v += AT_ONCE) {
        const int k = lane_k + v;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = (first + pixel_of_lane() + 8 * i) * K + k;
            Finished finished[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; ++u) {
                const int n = v + u, d = i * 2 + n % 2;
                Inputs inputs = {sums.product[n / 2][d]};
                finished[u] = finish(inputs, channels[n]);
            }
            put(reinterpret_cast<Output*>(y) + at, finished, k);
        }
    }
}

// Copies a unit of outputs from shared to device memory; the output is one contiguous array too.
__device__ __forceinline__ void store_unit(const Arguments& args, const unsigned char* y, int unit) {
    constexpr int UNIT_BYTES = UNIT * K * static_cast<int>(sizeof(Output));
    constexpr int LAST_BYTES = (PIXELS - (UNITS - 1) * UNIT) * K * static_cast<int>(sizeof(Output));
    auto* const to = reinterpret_cast<unsigned char*>(args.y) + static_cast<long long>(unit) * UNIT_BYTES;
    const int bytes = unit == UNITS - 1 ? LAST_BYTES : UNIT_BYTES;
#pragma unroll
    for (int first = 0; first < UNIT_BYTES; first += 16 * WARP_SIZE) {
        const int i = first + 16 * tile::lane();
        if (i + 16 > bytes) continue;
        *reinterpret_cast<tile::Words<4>*>(to + i) =
            tile::load_shared<4>(reinterpret_cast<const unsigned*>(y + i));
    }
    if constexpr (LAST_BYTES % 16 != 0) {
        const int last = bytes / 16 * 16 + tile::lane();
        if (last < bytes) to[last] = y[last];
    }
}

// Persistent blocks, as many as are resident at a time, whose warps take units of pixels in turn. No warp
// waits for another: a unit is copied to the warp's own shared memory, moved to registers before a later unit
// reuses the slot, and its outputs leave through shared memory in whole cache lines.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) conv2d_pointwise(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Stream& stream = shared.stream[tile::warp()];
    tile::Copies copies;
    tile::launch_dependents();
    tile::wait_on_dependency();
    // Units that load at the same time are neighbours.
    const int first_unit = tile::block_x() + GRID_BLOCKS * tile::warp();
#pragma unroll
    for (int stage = 0; stage < PIPELINE_STAGES; ++stage) {
        load_unit(args, stream.x[stage], first_unit + stage * (GRID_BLOCKS * WARPS), copies);
    }
    Filters all_filters[ALL_SLABS];
#pragma unroll
    for (int slab = 0; slab < ALL_SLABS; ++slab) all_filters[slab] = load_filters(args, slab);
    int stage = 0;
    for (int unit = first_unit; unit < UNITS; unit += GRID_BLOCKS * WARPS) {
        copies.wait<PIPELINE_STAGES - 1>();
        tile::warp_barrier();  // this unit is loaded, and the outputs of the previous one are written
#pragma unroll 1
        for (int batch = 0; batch < BATCHES; ++batch) {
            Pixels pixels[BATCH];
#pragma unroll
            for (int n = 0; n < BATCH; ++n) {
                pixels[n] = load_pixels(stream.x[stage] + (batch * BATCH + n) * 16 * C);
            }
            if (batch == BATCHES - 1) {
                tile::warp_barrier();  // this unit is in registers
                const int next = unit + PIPELINE_STAGES * GRID_BLOCKS * WARPS;
                load_unit(args, stream.x[stage], next, copies);
            }
#pragma unroll
            for (int slab = 0; slab < ALL_SLABS; ++slab) {
                const Filters& filters = all_filters[slab];
                Sums sums[BATCH] = {};
#pragma unroll
                for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                    for (int n = 0; n < BATCH; ++n) {
                        add_products(pixels[n].word[step], step, filters, sums[n]);
                    }
                }
                const int lane_k = slab * SLAB_K + tile::lane() % 4 * LANE_K;
                Channel channels[LANE_K];
                load_channels(args, lane_k, channels);
#pragma unroll
                for (int n = 0; n < BATCH; ++n) {
                    const int first = (batch * BATCH + n) * 16;
                    finish_pixels(args, stream.y, lane_k, unit, first, channels, sums[n]);
                }
            }
        }
        tile::warp_barrier();  // all outputs of the unit are in shared memory
        store_unit(args, stream.y, unit);
        stage = stage + 1 < PIPELINE_STAGES ? stage + 1 : 0;
    }
}
