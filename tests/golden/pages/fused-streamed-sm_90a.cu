// conv2d:n=32:h=14:w=14:c=384:k=384:r=3:s=3:pad=1,1,1,1:groups=384:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=hardswish+conv2d:n=32:h=14:w=14:c=384:k=768:r=1:s=1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    fused tile_h=14 tile_w=14 warps=16 blocks_per_sm=1 teams=1 cluster_blocks=1 weights_in_smem=0
//           on_wgmma=1 first_m=4 first_n=2 second_m=1 second_n=8
// launch    first_repack_weights<<<9x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<576x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<32x1x1, 512, 158640 B>>> when: call

@@ // The config.
constexpr int TILE_H = 14;  // output rows of a block
TILE_W=14 BLOCKS_PER_SM=1

@@ // What follows.
WARP_SIZE=32 THREADS=512 TILES_H=1 TILES_W=1 TILES=32 GRID_TEAMS=32 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=0 MID_PAD_LEFT=0 MID_CHUNKS=24 MID_PLANE=201 SMEM_BYTES=158640

// Increments a counter of the block and returns its previous value. A thread sees the writes of those that
// counted before it.
__device__ __forceinline__ unsigned count(unsigned* counter) {
    unsigned before;
    asm volatile("atom.acq_rel.cta.shared::cta.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "r"(shared_address(counter))
                 : "memory");
    return before;
}

@@ d8ff2dca in whole/fused-small-image-sm_90a.cu:     // Initialises the mbarrier and announces bytes: one thread, before others wait or send.
@@ 12+0
        copy(to, from, bytes);
    }
    __device__ __forceinline__ void copy(void* to, const void* from, int bytes) {
@@ 18+2
    // Announces the bytes of the next phase: one thread, once the last phase is complete and before others
    // send.
    __device__ __forceinline__ void expect_next(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
                     "r"(bytes)
                     : "memory");
    }
    // Fetches the bytes of the next phase, once nobody reads those of the last.
    __device__ __forceinline__ void fetch_next(void* to, const void* from, int bytes) {
        expect_next(bytes);
        copy(to, from, bytes);
    }
    // Waits until all bytes of a phase have arrived; phases are numbered from 0.
    __device__ __forceinline__ void wait_for_phase(int phase) {
@@ 26+1
                "p, [%1], %2;\n"
@@ 30+1
                : "r"(shared_address(this)), "r"(phase % 2)

// Computes a / 6, rounded like a division, except where `flush` discards the result. The constant 1/6 is
// split into two floats, and the product of the smaller is rounded too. All significands were tested, and
// none is wrong. Infinities and zeros of either sign are preserved. A GPU's division is far slower.
__device__ __forceinline__ float sixth(float a) {
    const bool is_small = magnitude(a) < 0x1p-60f;  // the small part's product could be denormal
    if (is_small) a = multiply(a, 0x1p60f);
    const float quotient = fma(a, 0x1.555554p-3f, multiply(a, 0x1.555556p-27f));
    return is_small ? multiply(quotient, 0x1p-60f) : quotient;
}

__device__ __forceinline__ float hardswish(float x) {
    const float gate = clamp(add(x, 3.0f), 0.0f, 6.0f);
    // Below -3 the gate is zero; an infinite x would make the product NaN.
    return flush(sixth(multiply(maximum(x, -3.0f), gate)));
}

// The threads that have a tile together: all of a block.
struct Team {
    int phase = 0;  // tiles that it had before this one
    bool is_last = true;  // whether this is its last tile
    tile::Copies copies;

//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(hardswish((acc + bias[k]) * multiplier[k]) * inverse)) as int8
namespace first {

@@ // What follows.
WORDS=1 VECTORS=48 EARLY_ROWS=4 SOURCE_ROWS=16 SOURCE_COLUMNS=16 GRID_ROWS=14 GRID_COLUMNS=14 GRID_PIXELS=196
HAS_K_REMAINDER=false

@@ 41982626 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
    const float* multiplier;  // per channel: x_scale * w_scale
@@ 8+1
    float inverse;  // 1 / y_scale

@@ cb296cf8 in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads.
@@ 5+0
    float inverse;

@@ 3860cb7a in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 8+1
    value = tile::hardswish(value);
    value = tile::multiply(value, channel.inverse);

@@ 1b181527 in whole/fused-small-image-sm_90a.cu: // The channel parameters of neighbouring channels. Those past the last channel repeat others that exist.
@@ 17+1
            channels[i + j].inverse = args.inverse;

@@ // The problem.
IN_H=14 IN_W=14 C=384 C_GROUP=384 OUT_H=14 OUT_W=14 K=768 K_GROUP=768 R=1 S=1 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=384 X_SIGNED=true
W_SIGNED=true

@@ // What follows.
RUN=64 SLAB_K=64 ALL_SLABS=12 BLOCK_SLABS=12 BUFFERS=3 OF_SLAB=4 TAPS=1 CHUNKS=24 UNITS=24 POSITIONS=196
EIGHTS_STRIDE=8 SOURCE_ROWS=14 SOURCE_COLUMNS=14 SOURCE_PLANE=201 GRID_ROWS=14 GRID_COLUMNS=14 GRID_PIXELS=196
HAS_K_REMAINDER=false VECTOR_K=16

// In shared memory: the weights of BUFFERS slabs, chunk after chunk and tap after tap, and the parameters of
// all channels, where the four lanes that have a pixel together find theirs on different banks.
struct alignas(16) SmemWeights {
    unsigned char weights[BUFFERS][UNITS][SLAB_K][16];
    alignas(16) int offset[BLOCK_SLABS][4][LANE_K + 4];
    alignas(16) float multiplier[BLOCK_SLABS][4][LANE_K + 4];
    alignas(16) tile::Mbarrier mbarrier[BUFFERS];
    unsigned uses[BUFFERS];  // by warps
};

__device__ __forceinline__ const int* slab_of_block(const Team& team, const Arguments& args, int index) {
    return args.fragments + (first_slab(team) + index) * SLAB_WORDS;
}

// Asks for the first slabs, as many as there are buffers.
__device__ __forceinline__ void load_weights(
    [[maybe_unused]] Team& team, const Arguments& args, SmemWeights& smem) {
    const int buffer = tile::thread();
    if (buffer < BUFFERS) {
        smem.uses[buffer] = 0;
        smem.mbarrier[buffer].fetch(smem.weights[buffer], slab_of_block(team, args, buffer), 4 * SLAB_WORDS);
    }
    for (int i = tile::thread(); i < BLOCK_SLABS * SLAB_K; i += THREADS) {
        const int slab = i / SLAB_K, lane = i / LANE_K % 4, of_lane = i % LANE_K;
        const int any_k = first_slab(team) * SLAB_K + i, k = !HAS_K_REMAINDER || any_k < K ? any_k : K - 1;
        team.copies.copy<4>(
            tile::shared_address(&smem.offset[slab][lane][of_lane]),
            args.offset + k,
            true);
        team.copies.copy<4>(
            tile::shared_address(&smem.multiplier[slab][lane][of_lane]),
            args.multiplier + k,
            true);
    }
}

// A slab's weights have been multiplied by this warp. The last warp to say so asks for what follows in their
// place: a later slab of this tile, or of the next.
__device__ __forceinline__ void release(
    const Team& team, const Arguments& args, SmemWeights& smem, int index, int buffer) {
    constexpr int USERS = OF_SLAB * (WARPGROUP_SIZE / WARP_SIZE);
    if (tile::lane() != 0 || tile::count(&smem.uses[buffer]) % USERS != USERS - 1) return;
    int next = index + BUFFERS;
    if (next >= BLOCK_SLABS) {
        if (team.is_last) return;
        next -= BLOCK_SLABS;
    }
    smem.mbarrier[buffer].fetch_next(smem.weights[buffer], slab_of_block(team, args, next), 4 * SLAB_WORDS);
}

// The outputs of a tile's pixels. OF_SLAB warpgroups have a slab together, each its runs of pixels. In a tile
// the slabs of one buffer have the same warpgroups, which so miss none of its turns; between tiles all meet.
__device__ __forceinline__ void run(
    const Team& team, const Arguments& args, SmemWeights& smem, Source& source, const Sink& sink) {
    constexpr int AT_ONCE = THREADS / WARPGROUP_SIZE / OF_SLAB;
    static_assert(AT_ONCE * OF_SLAB * WARPGROUP_SIZE == THREADS && BUFFERS % AT_ONCE == 0,
                  "BUFFERS must be a multiple of AT_ONCE");
    static_assert(BUFFERS < BLOCK_SLABS, "BUFFERS must be fewer than BLOCK_SLABS");
    const int group = team.warpgroup();
#pragma unroll 1
    for (int index = group / OF_SLAB; index < BLOCK_SLABS; index += AT_ONCE) {
        const int slab = first_slab(team) + index;
        const int number = team.phase * BLOCK_SLABS + index, buffer = number % BUFFERS;  // of all tiles
        Channel channels[LANE_K];
        load_channels(args, smem, index, channels);
        smem.mbarrier[buffer].wait_for_phase(number / BUFFERS);
#pragma unroll 1
        for (int run = group % OF_SLAB; run < RUNS; run += OF_SLAB) {
            Sums sums(channels);
            multiply(smem.weights[buffer], source, run * RUN, sums);
            if (run + OF_SLAB >= RUNS) release(team, args, smem, index, buffer);
            finish_pixels(sink, slab, run * RUN, sums, channels);
        }
    }
}

@@ d139949e in whole/fused-small-image-sm_90a.cu: // A block has one tile.
@@ 19+1
