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

@@ 0ed6b2a4 in whole/fused-small-image-sm_90a.cu: // The config.
@@ 2+1
constexpr int TILE_H = 14;  // output rows of a tile

@@ 84e26992 in whole/fused-small-image-sm_90a.cu: // What follows.
@@ 5+1
constexpr int TILES_H = 1;  // tiles down an image
@@ 7+2
constexpr int TILES = 32;  // tiles of all images
constexpr int GRID_TEAMS = 32;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 20+1
constexpr int MID_PLANE = 201;  // pixels of a chunk
@@ 22+1
constexpr int SMEM_BYTES = 158640;

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

//   acc = sum over r, s, c of x * w, in int32
//   y   = clamp(round_half_to_even(hardswish((acc + bias[k]) * multiplier[k]) * inverse)) as int8
namespace first {

@@ 62eb327e in whole/fused-small-image-sm_90a.cu: // What follows.
@@ 6+1
constexpr int SOURCE_ROWS = 16;  // input rows that a tile needs
@@ 10+1
constexpr int GRID_ROWS = 14;  // output rows of a tile
@@ 12+2
constexpr int GRID_PIXELS = 196;
constexpr int BORDERED_ROWS = 14;  // those rows and the padding around them

@@ 332d0a02 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 6+1
    const float* multiplier;  // per channel: x_scale * w_scale
@@ 8+1
    float inverse;  // 1 / y_scale

@@ dcb124ab in whole/simt-body-sm_90a.cu: // The parameters of one output channel that the epilogue reads. They are the same for all pixels, so a
@@ 6+0
    float inverse;

@@ 1a17263c in whole/fused-small-image-sm_90a.cu: // Computes an output element from the accumulator. The contract fixes the order and the rounding of the
@@ 9+1
    value = tile::hardswish(value);
    value = tile::multiply(value, channel.inverse);

@@ 8c556fdb in whole/fused-small-image-sm_90a.cu: // Loads the channel parameters of neighbouring channels. Channels past the last get those of others.
@@ 16+1
        for (int j = 0; j < WIDTH; ++j) channels[i + j].inverse = args.inverse;

@@ // The problem.
IN_H=14 IN_W=14 C=384 C_GROUP=384 OUT_H=14 OUT_W=14 K=768 K_GROUP=768 R=1 S=1 STRIDE_H=1 STRIDE_W=1
DILATION_H=1 DILATION_W=1 PAD_TOP=0 PAD_LEFT=0 PADDED=false PIXELS=6272 REDUCTION=384 X_SIGNED=true
W_SIGNED=true

// What follows.
constexpr int RUN = 64;  // pixels of one instruction
constexpr int SLAB_K = 64;  // output channels per slab, which is a warpgroup's
constexpr int ALL_SLABS = 12;
constexpr int BLOCK_SLABS = 12;  // slabs per block
constexpr int BUFFERS = 3;  // slabs of weights that shared memory holds
constexpr int OF_SLAB = 4;  // warpgroups that multiply a slab together
constexpr int TAPS = 1;
constexpr int CHUNKS = 24;  // chunks of 16 input channels, zeros to an even number
constexpr int UNITS = 24;  // chunks of the reduction
constexpr int POSITIONS = 196;  // pixels of the input at which windows begin
constexpr int EIGHTS_STRIDE = 8;  // pixels from eight pixels to the next eight
constexpr int UNROLL_TAPS = 1;  // taps that are written out
constexpr int UNROLL_CHUNKS = 12;  // pairs of chunks that are written out
constexpr int SOURCE_ROWS = 14;  // input rows that a tile needs
constexpr int SOURCE_COLUMNS = 14;
[[maybe_unused]] constexpr int SOURCE_ROW = 14;  // pixels from a row in shared memory to the next
[[maybe_unused]] constexpr bool INTERLEAVED = false;  // even columns precede odd ones in shared memory
constexpr int SOURCE_PLANE = 201;
constexpr int GRID_ROWS = 14;  // output rows of a tile
constexpr int GRID_COLUMNS = 14;
constexpr int GRID_PIXELS = 196;
constexpr bool DIVIDED = false;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist
constexpr int VECTOR_K = 16;  // channels per write

@@ 518970c2 in whole/fused-small-image-sm_90a.cu: // In shared memory: the weights of BUFFERS slabs, chunk after chunk and tap after tap, and the parameters of
@@ 7+1
    alignas(16) tile::Mbarrier mbarrier[BUFFERS];
    unsigned uses[BUFFERS];  // by warps

__device__ __forceinline__ const int* slab_of_block(const Team& team, const Arguments& args, int index) {
    return args.fragments + (first_slab(team) + index) * SLAB_WORDS;
}

// Fetches the weights of the first BUFFERS slabs.
__device__ __forceinline__ void copy_weights(Team& team, const Arguments& args, SmemWeights& smem) {
    const int buffer = tile::thread();
    if (buffer < BUFFERS) {
        smem.uses[buffer] = 0;
        smem.mbarrier[buffer].fetch(smem.weights[buffer], slab_of_block(team, args, buffer), 4 * SLAB_WORDS);
    }
}
// Each slab is waited for by itself.
__device__ __forceinline__ void await_copies(SmemWeights&) {}

// Waits for a slab, and returns its buffer. A buffer's slabs, of all tiles, are its phases.
__device__ __forceinline__ int await_slab(const Team& team, SmemWeights& smem, int index) {
    const int number = team.phase * BLOCK_SLABS + index, buffer = number % BUFFERS;
    smem.mbarrier[buffer].wait_for_phase(number / BUFFERS);
    return buffer;
}

// Frees a buffer: this warp has multiplied its slab. The last warp to do so fetches the slab that the buffer
// holds next: a later one of this tile, or one of the next tile.
__device__ __forceinline__ void release_slab(
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
