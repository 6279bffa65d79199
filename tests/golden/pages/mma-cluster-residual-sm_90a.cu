// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    mma instruction=0 tile_m=128 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=4
//           prefetch_fragments=1 split=4 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<392x1x1, 256, 82704 B>>> when: call

@@ // The config.
TILE_M=128 TILE_N=64 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=4
constexpr int SPLIT = 4;  // blocks that share a tile

@@ // Derived values.
WARP_SIZE=32 THREADS=256 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=49 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=82704 FOLD_THREADS=128 PADDING_WORDS=4096

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 10+5
    int* padding;  // x_zero in every element
@@ 21+1

// An element of a window's reduction: filter row, filter column, channel; channels fastest, as the weights
// are stored. `advance` needs no division.
struct Tap {
    int row, column, channel;

    Tap() = default;
    __device__ __forceinline__ explicit Tap(unsigned index)
        : row(index / (C_GROUP * S)), column(index / C_GROUP % S), channel(index % C_GROUP) {}

    template <int BY>
    __device__ __forceinline__ void advance() {
        channel += BY % C_GROUP;
        column += BY / C_GROUP % S;
        row += BY / (C_GROUP * S);
        if (channel >= C_GROUP) {
            channel -= C_GROUP;
            ++column;
        }
        if (column >= S) {
            column -= S;
            ++row;
        }
    }

// Returns the address of a vector of padding. Threads read different copies of it: a single cache line would
// be a bottleneck.
__device__ __forceinline__ const X* padding_of_thread(const Arguments& args) {
    constexpr unsigned COPIES = PADDING_WORDS / 4;
    const unsigned thread = static_cast<unsigned>(tile::block_x()) * THREADS + tile::thread();
    return reinterpret_cast<const X*>(args.padding) + thread % COPIES * (16 / ELEMENT_BYTES);
}

// A thread's column of the weights: the same element of the reduction as in x.
struct WColumn {
    int at;
    WColumn() = default;
    __device__ __forceinline__ explicit WColumn(unsigned index) : at(index) {}
    __device__ __forceinline__ int index() const { return at; }
    template <int BY>
    __device__ __forceinline__ void advance() { at += BY; }
};

@@ abf43432 in whole/mma-body-sm_90a.cu: // The epilogue's channel parameters of a tile, in shared memory.
@@ 4+1
    float scale[TILE_N];
    float bias[TILE_N];

@@ 99a52e38 in whole/mma-body-sm_90a.cu: // Loads the tiles of successive steps into shared memory with cp.async, which needs no registers.
@@ 4+0
    const X* const padding = padding_of_thread(args);  // source of the copies that are outside the image

@@ ffc6f651 in whole/mma-body-sm_90a.cu:     // Loads the channel parameters in the group of the next step, so that the first products do not wait for
@@ 14+2
                tile::shared_address(&channel_parameters.scale[n]),
                args.scale + k, true);
            copies.copy<4>(
                tile::shared_address(&channel_parameters.bias[n]),
                args.bias + k, true);

@@ 5f44ee17 in whole/mma-body-sm_90a.cu:     template <int PARTS>
@@ 10+2
            // Two selects: if it has to select one of two sums, the compiler branches.
            const X* const from = inside ? args.x : padding;
            const int at = inside ? rows.offset[i] + offset : 0;
            copies.copy<X_BYTES>(to + XVectors::offset_of(i), from + at, tap.exists());

struct FinishedVector { Finished element[VECTOR_N]; };
struct alignas(sizeof(Residual) * VECTOR_N) ResidualVector { Residual element[VECTOR_N]; };

// The partial sums that a block receives from every block of its cluster, for the output vectors that it
// finishes.
constexpr int VECTORS = CHANNELS_OF_LANE / VECTOR_N;
constexpr int UNITS = PIXELS_OF_LANE * VECTORS;
constexpr int SLOTS = (UNITS + SPLIT - 1) / SPLIT;
constexpr int PARTIAL = VECTOR_N < 4 ? VECTOR_N : 4;
struct alignas(16) Received {
    tile::Words<PARTIAL> product[SPLIT][SLOTS * (VECTOR_N / PARTIAL)][THREADS];
};

@@ 8383292c in whole/mma-body-sm_90a.cu: struct Shared {
@@ 6+0
    Received received;
    alignas(16) tile::Mbarrier mbarrier;

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 7+1
    channel.scale = channel_parameters.scale[n];
    channel.bias = channel_parameters.bias[n];
    channel.residual_scale = args.residual_scale;
    channel.residual_zero = args.residual_zero;
    channel.inverse = args.inverse;
    channel.y_zero = args.y_zero;

__device__ __forceinline__ ResidualVector residual_at(const Arguments& args, int pixel, int k, int k_end) {
    ResidualVector residuals = {};
    if (pixel >= PIXELS) return residuals;
    if constexpr (WHOLE_VECTORS) {
        if (k < k_end) {
            residuals = *reinterpret_cast<const ResidualVector*>(args.residual + output_index(pixel, k));
        }
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR_N; ++i) {
            if (k + i < k_end) residuals.element[i] = tile::load(args.residual + output_index(pixel, k + i));
        }
    }
    return residuals;
}

@@ 66b40747 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ FinishedVector finish_vector(
@@ 3+0
    const ResidualVector& residuals,
@@ 8+0
        inputs.residual = residuals.element[i];

@@ 85feaa4c in whole/mma-body-sm_90a.cu: // Writes the outputs from registers to device memory.
@@ 8+0
        ResidualVector residuals[PIXELS_OF_LANE];  // load all of them before writing the first output
@@ 10+1
            const int pixel = tile_part.pixel_tile + pixel_of(i);
            residuals[i] = residual_at(args, pixel, tile_part.k_tile + n, tile_part.k_end);
        }
#pragma unroll
        for (int i = 0; i < PIXELS_OF_LANE; ++i) {
            const FinishedVector outputs = finish_vector(sums_of(acc, i, v), residuals[i], channels);

// Announces the bytes that this block will receive; runs before the cluster's barrier.
__device__ __forceinline__ void expect_products(Shared& shared) {
    const int rank = static_cast<unsigned>(tile::block_x()) % SPLIT;
    const int units = (UNITS - rank + SPLIT - 1) / SPLIT;
    constexpr int BYTES = sizeof(Received) / (SPLIT * SLOTS);
    if (tile::thread() == 0) shared.mbarrier.expect(units * SPLIT * BYTES);
    tile::arrive_at_cluster();
}

// Sums a tile across the blocks of a cluster. Each block finishes every SPLIT-th vector of outputs and
// receives the partial sums of these from the other blocks.
__device__ __forceinline__ void finish_part(
    const Arguments& args, Shared& shared, const TilePart& tile_part, Accumulators& acc) {
    const int rank = static_cast<unsigned>(tile::block_x()) % SPLIT;
    tile::wait_for_cluster();  // every block has initialised its mbarrier
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        const Sums sums = sums_of(acc, unit / VECTORS, unit % VECTORS);
#pragma unroll
        for (int i = 0; i < VECTOR_N / PARTIAL; ++i) {
            tile::Words<PARTIAL> words;
#pragma unroll
            for (int j = 0; j < PARTIAL; ++j) {
                words.word[j] = static_cast<unsigned>(sums.product[i * PARTIAL + j]);
            }
            const auto& place =
                shared.received.product[rank][unit / SPLIT * (VECTOR_N / PARTIAL) + i][tile::thread()];
            tile::send(place, shared.mbarrier, unit % SPLIT, words);
        }
    }
    shared.mbarrier.wait_for_sent();
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
        const int unit = slot * SPLIT + rank;
        if (UNITS % SPLIT != 0 && unit >= UNITS) return;
        Sums sums = {};
#pragma unroll
        for (int block = 0; block < SPLIT; ++block) {
#pragma unroll
            for (int i = 0; i < VECTOR_N / PARTIAL; ++i) {
                const auto words =
                    shared.received.product[block][slot * (VECTOR_N / PARTIAL) + i][tile::thread()];
#pragma unroll
                for (int j = 0; j < PARTIAL; ++j) {
                    sums.product[i * PARTIAL + j] += static_cast<Sum>(words.word[j]);
                }
            }
        }
        const int n = channel_of(unit % VECTORS);
        const int pixel = tile_part.pixel_tile + pixel_of(unit / VECTORS);
        const ResidualVector residuals = residual_at(args, pixel, tile_part.k_tile + n, tile_part.k_end);
        const Channels channels = channels_at(args, shared, tile_part, n);
        const FinishedVector outputs = finish_vector(sums, residuals, channels);
        write_vector(args, pixel, tile_part.k_tile + n, tile_part.k_end, outputs);
    }
}

// Returns the first step of a part of a tile. The equal case is separate because the compiler benefits from
// knowing it.
__device__ __forceinline__ int first_step(unsigned part) {
    return STEPS % SPLIT == 0 ? part * (STEPS / SPLIT) : part * STEPS / SPLIT;
}

@@ 9e5d3062 in whole/mma-body-sm_90a.cu: // One block per tile: TILE_M output pixels x TILE_N channels of one group, or of a part of the reduction.
@@ 2+1
extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(SPLIT, 1, 1)
@@ 6+1
    // SPLIT neighbouring blocks share a tile; each takes a part of the reduction.
    const unsigned block = tile::block_x(), part = block % SPLIT;
    const TilePart tile_part(block / SPLIT, first_step(part), first_step(part + 1));
    expect_products(shared);

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 13+0
    for (int i = k * FOLD_THREADS + tile::thread(); i < PADDING_WORDS; i += K * FOLD_THREADS) {
        args.padding[i] = static_cast<int>(padding_word(args));
    }
@@ 15+3
