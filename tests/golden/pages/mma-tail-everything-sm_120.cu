// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_120
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=3
//           prefetch_fragments=0 split=4 split_last_wave=1 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<280x1x1, 128, 43792 B>>> when: call

@@ // The config.
TILE_M=64 TILE_N=64 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=3
constexpr int SPLIT = 4;  // blocks that share a tile
WHOLE=168

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=43792 FOLD_THREADS=128 PADDING_WORDS=4096

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 10+0
    int* padding;  // x_zero in every element

@@ abf43432 in whole/mma-body-sm_90a.cu: // The epilogue's channel parameters of a tile, in shared memory.
@@ 4+0
    int w_zero[TILE_N];

@@ ffc6f651 in whole/mma-body-sm_90a.cu:     // Loads the channel parameters in the group of the next step, so that the first products do not wait for
@@ 14+0
                tile::shared_address(&channel_parameters.w_zero[n]),
                args.w_zero + k, true);
            copies.copy<4>(

struct Accumulators {
    Sum product[ATOMS_M][ATOMS_N][D_REGISTERS];
    Sum x_sum[ATOMS_M][D_REGISTERS];  // sum of the inputs in each window: the product with a filter of ones
};

@@ 7a62d4c2 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ void multiply(const Fragments& fragments, Accumulators& acc) {
@@ 7+0
    WFragment ones;
#pragma unroll
    for (unsigned& word : ones.word) word = ONES;
#pragma unroll
    for (int i = 0; i < ATOMS_M; ++i) multiply_add(fragments.x[i], ones, acc.x_sum[i]);

@@ 8fcb84db in whole/mma-body-sm_90a.cu: // A vector of a lane's sums: VECTOR_N channels of one pixel.
@@ 4+0
    Sum x_sum;

@@ b69c5b99 in pages/mma-cluster-residual-sm_90a.cu: // The partial sums that a block receives from every block of its cluster, for the output vectors that it
@@ 9+0
    Sum x_sum[SPLIT][SLOTS][THREADS];

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 7+0
    channel.w_zero = channel_parameters.w_zero[n];
@@ 8+0
    channel.top = args.top;
    channel.y_zero = args.y_zero;

@@ 452007ec in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Sums sums_of(const Accumulators& acc, int i, int v) {
@@ 9+0
    sums.x_sum = acc.x_sum[i / LANE_PIXELS][register_of(i % LANE_PIXELS, 0)];

@@ 66b40747 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ FinishedVector finish_vector(
@@ 8+0
        inputs.x_sum = sums.x_sum;

@@ 5c43c4dd in pages/mma-cluster-residual-sm_90a.cu: // Sums a tile across the blocks of a cluster. Each block finishes every SPLIT-th vector of outputs and
@@ 5+0
    if (tile_part.begin == 0 && tile_part.end == STEPS) return write_tile(args, shared, tile_part, acc);
@@ 21+0
        const Sum& place = shared.received.x_sum[rank][unit / SPLIT][tile::thread()];
        tile::send(place, shared.mbarrier, unit % SPLIT, sums.x_sum);
@@ 39+0
            sums.x_sum += shared.received.x_sum[block][slot][tile::thread()];
@@ 42+3
        const FinishedVector outputs = finish_vector(sums, channels_at(args, shared, tile_part, n));

@@ 9e5d3062 in whole/mma-body-sm_90a.cu: // One block per tile: TILE_M output pixels x TILE_N channels of one group, or of a part of the reduction.
@@ 2+1
extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(SPLIT, 1, 1)
@@ 6+1
    // The first WHOLE blocks, which make up whole waves, each take an entire tile; SPLIT neighbouring ones
    // share each of the others.
    const unsigned block = tile::block_x();
    const bool is_whole = block < WHOLE;
    const unsigned index = is_whole ? block : WHOLE + (block - WHOLE) / SPLIT;
    const unsigned part = is_whole ? 0 : block % SPLIT;
    const TilePart tile_part(index, first_step(part), is_whole ? STEPS : first_step(part + 1));
    if (!is_whole) expect_products(shared);

@@ b32be986 in shared.cu: extern "C" __global__ void __launch_bounds__(FOLD_THREADS) conv2d_fold(const Arguments args) {
@@ 13+0
    for (int i = k * FOLD_THREADS + tile::thread(); i < PADDING_WORDS; i += K * FOLD_THREADS) {
        args.padding[i] = static_cast<int>(padding_word(args));
    }
