// conv2d:n=8:h=28:w=28:c=128:k=256:r=2:s=2:pad=1,1,1,1:pixel_shuffle=2,2:crop=1,1,1,1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    gfx1100
// config    mma instruction=0 tile_m=32 tile_n=128 tile_k=64 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=2 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<192x1x1, 128, 22528 B>>> when: call

@@ // The config.
TILE_M=32 TILE_N=128 TILE_K=64 WARP_M=32 WARP_N=32 PIPELINE_STAGES=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=16 STEPS=8 HAS_REDUCTION_REMAINDER=false
TILES_M=211 TILES_N=2 TILES=422
constexpr int BLOCKS = 192;
X_BYTES=16 W_BYTES=16 VECTOR_N=16 X_SIZE=802816 W_SIZE=131072 SMEM_BYTES=22528

@@ a61b3302 in whole/mma-16x16x32-staged-gfx942.hip: // Loads words at `base + offset + common` from a buffer of `bytes`; outside, the hardware returns zeros.
@@ 7+1
        const_cast<void*>(base), 0, __builtin_amdgcn_readfirstlane(bytes), 822099968);

// wmma 16x16x16 of RDNA3: A is 16 channels, B is 16 pixels, each by 16 bytes of the reduction. Both halves of
// the wave hold all of A and B, and the even and odd channels of D.
[[maybe_unused]] constexpr bool A_SIGNED = W_SIGNED, B_SIGNED = X_SIGNED;
constexpr int A_REGISTERS = 4, B_REGISTERS = 4, D_REGISTERS = 8;
constexpr int ATOM_ROWS = 16;

// Computes D += A * B, by one wave.
__device__ __forceinline__ void multiply_add(
    const unsigned (&a)[A_REGISTERS], const unsigned (&b)[B_REGISTERS], Sum (&d)[D_REGISTERS]) {
    typedef Sum Registers __attribute__((ext_vector_type(D_REGISTERS)));
    typedef int Operand __attribute__((ext_vector_type(A_REGISTERS)));
    const Registers sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(
        A_SIGNED, __builtin_bit_cast(Operand, a), B_SIGNED, __builtin_bit_cast(Operand, b),
        __builtin_bit_cast(Registers, d), false);
#pragma unroll
    for (int i = 0; i < D_REGISTERS; ++i) d[i] = sum[i];
}

// Reads all sums after a loop of products, while every lane is active. clang does not know that wmma needs
// every lane (llvm-project issues 165602 and 178314): where only a branch reads a sum, such as a store's
// guard, it moves the instruction into the branch, and the lanes that skip the branch hold garbage.
template <class Sums>
__device__ __forceinline__ void keep_converged(Sums& sums) {
    typedef Sum Registers __attribute__((ext_vector_type(D_REGISTERS)));
    Sum (*const tiles)[D_REGISTERS] = reinterpret_cast<Sum (*)[D_REGISTERS]>(&sums);
#pragma unroll
    for (unsigned i = 0; i < sizeof(Sums) / sizeof(*tiles); ++i) {
        Registers tile = __builtin_bit_cast(Registers, tiles[i]);
        asm volatile("" : "+v"(tile));
#pragma unroll
        for (int j = 0; j < D_REGISTERS; ++j) tiles[i][j] = tile[j];
    }
}

// A lane holds every second channel of one pixel.
constexpr int LANE_PIXELS = 1, LANE_CHANNELS = 8;
__device__ __forceinline__ int pixel_of_lane(int) { return tile::lane() % 16; }
__device__ __forceinline__ int channel_lane() { return tile::lane() / 16; }
constexpr __device__ int register_of(int, int channel) { return channel; }
// Return the half of the wave that holds a channel of the atom, and the channel's index within the lane.
__device__ __forceinline__ int lane_of_channel(unsigned channel) { return channel % 2; }
__device__ __forceinline__ int index_of_channel(unsigned channel) { return channel / 2; }

@@ 16d55ef5 in whole/mma-body-sm_90a.cu: // A block's tile and its part of the reduction.
@@ 5+0
    int turn;  // how many tile parts the block has processed before

@@ 3946c71a in whole/mma-body-sm_90a.cu:     // Tiles that share pixels run at about the same time: all channels of one tile of pixels, then the next.
@@ 2+2
    __device__ __forceinline__ TilePart(unsigned tile, int begin, int end, int turn)
        : tile(tile), begin(begin), end(end), turn(turn) {

@@ 8383292c in whole/mma-body-sm_90a.cu: struct Shared {
@@ 2+1
    ChannelParameters channel_parameters[2];  // this tile's and the next one's

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 4+1
    const ChannelParameters& channel_parameters = shared.channel_parameters[tile_part.turn % 2];

@@ 1262b0e6 in whole/mma-body-sm_90a.cu: // Multiplies one tile over the block's part of the reduction, after `loader.fill`. PIPELINE_STAGES - 1 steps
@@ 10+3
@@ 16+0
    loader.begin<1>(pipeline, 0);
@@ 24+1
@@ 26+2
                loader.end(pipeline);
@@ 29+0
                loader.begin<1>(pipeline, 0);
@@ 36+0
    keep_converged(acc);

// A block's work: every BLOCKS-th tile.
struct Work {
    unsigned tile = tile::block_x();
    int turn = 0;

    __device__ __forceinline__ bool exists() const { return tile < TILES; }
    __device__ __forceinline__ TilePart tile_part() const { return {tile, 0, STEPS, turn}; }
    __device__ __forceinline__ void advance() {
        tile += BLOCKS;
        ++turn;
    }
};

// Persistent blocks, as many as are resident at a time, each process several tiles: the first steps of the
// next tile load while the current one is finished.
extern "C" __global__ void __launch_bounds__(THREADS) conv2d_mma(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Work work;
    TilePart tile_part = work.tile_part();
    Loader loader(args);
    loader.fill(shared.pipeline, tile_part);
    loader.load_channel_parameters(shared.channel_parameters[0], tile_part);
    for (;;) {
        Accumulators acc = {};
        accumulate(shared.pipeline, loader, tile_part, acc);
        work.advance();
        if (!work.exists()) {
            finish_part(args, shared, tile_part, acc);
            return;
        }
        const TilePart next = work.tile_part();
        tile::barrier();  // all threads have multiplied the last step
        loader.fill(shared.pipeline, next);
        loader.load_channel_parameters(shared.channel_parameters[next.turn % 2], next);
        finish_part(args, shared, tile_part, acc);
        tile_part = next;
    }
}
