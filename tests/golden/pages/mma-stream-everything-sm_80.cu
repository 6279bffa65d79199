// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_80
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=4
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=1 stream_k=1 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<108x1x1, 128, 34320 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=18 HAS_REDUCTION_REMAINDER=false
TILES_M=98 TILES_N=2 TILES=196
constexpr int BLOCKS = 108;
X_BYTES=16 W_BYTES=16 VECTOR_N=8 SMEM_BYTES=34320 FOLD_THREADS=128 PADDING_WORDS=4096

// Adds to device memory that several blocks add to.
__device__ __forceinline__ void accumulate(int* address, int value) {
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
// Adds `by` and returns the previous value, with acquire and release semantics: a block that sees another's
// addition also sees that block's earlier writes.
__device__ __forceinline__ int arrive(int* address, int by) {
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(address), "r"(by)
                 : "memory");
    return before;
}
// Every thread calls this before one of them arrives for all. Here the barrier in between suffices.
__device__ __forceinline__ void publish() {}
// Returns the value and leaves zero.
__device__ __forceinline__ int take(int* address) {
    int value;
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], 0;" : "=r"(value) : "l"(address) : "memory");
    return value;
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 10+0
    int* padding;  // x_zero in every element
    Sum* sums;  // sums of the tiles that several blocks share
    int* arrived;  // steps added so far to each of these tiles

@@ e98a3aa6 in whole/mma-body-sm_90a.cu:     // Waits for the oldest step.
@@ 3+0
    // Waits for the channel parameters: the tile part may have too few steps for `wait` to cover them.
    __device__ __forceinline__ void wait_for_channel_parameters() { copies.wait<0>(); }

@@ 8383292c in whole/mma-body-sm_90a.cu: struct Shared {
@@ 2+1
    ChannelParameters channel_parameters[2];  // this tile's and the next one's
@@ 6+0
    alignas(16) int is_last;  // nonzero if this block is the last to add to its tile

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 4+1
    const ChannelParameters& channel_parameters = shared.channel_parameters[tile_part.turn % 2];
@@ 7+0
    channel.w_zero = channel_parameters.w_zero[n];
@@ 8+0
    channel.top = args.top;
    channel.y_zero = args.y_zero;

// Adds a block's partial sums to those of the other blocks of its tile, in device memory. Returns true for
// the block that arrives last: it reads the totals and leaves zeros for the next launch. No block waits for
// another.
__device__ __forceinline__ bool add_up(
    const Arguments& args, Shared& shared, const TilePart& tile_part, Accumulators& acc) {
    constexpr int COUNT = sizeof(Accumulators) / sizeof(Sum);
    Sum* const products = reinterpret_cast<Sum*>(&acc);
    const int index = tile_part.tile;
    Sum* const sums = args.sums + index * (COUNT * THREADS) + tile::thread();
#pragma unroll
    for (int i = 0; i < COUNT; ++i) tile::accumulate(sums + i * THREADS, products[i]);
    tile::publish();
    tile::barrier();
    if (tile::thread() == 0) {
        const int steps = tile_part.end - tile_part.begin;
        shared.is_last = tile::arrive(args.arrived + index, steps) + steps == STEPS;
    }
    tile::barrier();
    if (!shared.is_last) return false;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) products[i] = tile::take(sums + i * THREADS);
    if (tile::thread() == 0) tile::take(args.arrived + index);
    return true;
}

__device__ __forceinline__ void finish_part(
    const Arguments& args, Shared& shared, const TilePart& tile_part, Accumulators& acc) {
    const bool is_whole = tile_part.begin == 0 && tile_part.end == STEPS;
    if (is_whole || add_up(args, shared, tile_part, acc)) write_tile(args, shared, tile_part, acc);
}

@@ 1262b0e6 in whole/mma-body-sm_90a.cu: // Multiplies one tile over the block's part of the reduction, after `loader.fill`. PIPELINE_STAGES - 1 steps
@@ 36+0
    loader.wait_for_channel_parameters();
    tile::barrier();

// A block's work (stream-K): every block takes the same number of steps, plus or minus one, across tile
// boundaries. It may share its first and its last tile with a neighbour.
struct Work {
    unsigned at;  // position in the steps of all tiles
    int left;
    int turn = 0;

    __device__ __forceinline__ Work() {
        constexpr int EACH = TILES * STEPS / BLOCKS, MORE = TILES * STEPS % BLOCKS;
        const int block = tile::block_x();
        at = block * EACH + (block < MORE ? block : MORE);
        left = EACH + (block < MORE ? 1 : 0);
    }
    __device__ __forceinline__ bool exists() const { return left > 0; }
    __device__ __forceinline__ int steps() const {
        const int rest = STEPS - static_cast<int>(at % STEPS);
        return left < rest ? left : rest;
    }
    __device__ __forceinline__ TilePart tile_part() const {
        const int begin = at % STEPS;
        return {at / STEPS, begin, begin + steps(), turn};
    }
    __device__ __forceinline__ void advance() {
        const int done = steps();
        at += done;
        left -= done;
        ++turn;
    }
};
