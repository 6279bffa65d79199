// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:groups=32:x_type=float16:w_type=float16:
//     out_type=float16:per_channel:bias=float32:activation=relu
//
// target    sm_90a
// config    direct tile_h=14 tile_w=16 slabs=2 warps=4 batch=2 blocks_per_sm=3
// launch    conv2d_repack_weights<<<40x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_direct<<<256x1x1, 128, 29248 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=128 C_GROUP=4 OUT_H=28 OUT_W=28 K=128 K_GROUP=4 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=36 X_SIGNED=true W_SIGNED=true

@@ // The config.
constexpr int TILE_H = 14;  // output rows per tile
TILE_W=16
constexpr int SLABS = 2;  // slabs of channels per block
WARPS=4 BATCH=2 BLOCKS_PER_SM=3

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS=9
constexpr int CHUNKS = 1;  // chunks of 16 bytes of input channels per slab
CHANNEL_BYTES=2 PARTS=1 SLAB_K=8 ALL_SLABS=16 STEPS=5
constexpr int ATOMS = 1;  // instructions per step
TILES_H=2 TILES_W=2 SLAB_TILES=8 TILES=256 GRID_BLOCKS=256
constexpr int X_BYTES = 16;  // bytes per copy of x
constexpr int VECTOR_K = 8;  // channels per store
SMEM_BYTES=29248

@@ ddcf25d5 in pages/direct-depthwise-sm_90a.cu: static_assert(REDUCTION == TAPS * C_GROUP && TAPS == R * S, "REDUCTION must be R * S * C_GROUP");
@@ 2+1
static_assert(STEPS == (TAPS * CHUNKS + 1) / 2, "STEPS must be half of the chunks of 16 bytes");
static_assert(X_SIGNED && W_SIGNED, "floats are signed");
static_assert(PARTS == 1 || C_GROUP * CHANNEL_BYTES == CHUNKS * 16, "one group alone is split into parts");
static_assert(SLABS % PARTS == 0, "a block must have all parts of its channels");

@@ 392bf3ed in whole/simt-body-sm_90a.cu: // The kernel's only parameter.
@@ 6+2
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale
    int* fragments;  // filters, in the order in which a warp's lanes hold them

// Input channels per chunk and per slab. PARTS slabs have the same input channels, and others of the group's
// output channels.
constexpr int CHUNK_C = 16 / CHANNEL_BYTES, SLAB_C = CHUNKS * CHUNK_C;
static_assert(sizeof(X) == CHANNEL_BYTES && sizeof(W) == CHANNEL_BYTES,
              "a word of weights must have as many elements as a word of channels");

@@ 5f3a7f90 in pages/direct-depthwise-sm_90a.cu: // Loads a tile of the input; each byte is copied to shared memory once.
@@ 4+2
    constexpr int CHANNELS = SLABS / PARTS * SLAB_C, COPY_C = X_BYTES / CHANNEL_BYTES;
    constexpr int VECTORS = IN_PIXELS * CHANNELS / COPY_C, PER_PIXEL = CHANNELS / COPY_C;
@@ 10+1
        const int pixel = i / PER_PIXEL, channel = i % PER_PIXEL * COPY_C;
@@ 12+1
        const int c = tile.slab / PARTS * SLAB_C + channel;
@@ 14+1
        unsigned char* const to = &input.byte[channel / CHUNK_C][pixel][channel % CHUNK_C * CHANNEL_BYTES];

// Element `i` of register `half` of B in a lane, for output channel `k` of the slab: the index of its weight,
// and whether the input channel belongs to the output channel's group. The chunks of one tap are consecutive.
struct Element { int at; bool exists; };
__device__ __forceinline__ Element element_of(int k, int step, int half, int lane, int i) {
    const int unit = 2 * step + half, c = unit % CHUNKS * CHUNK_C + lane % 4 * (CHUNK_C / 4) + i;
    return {unit / CHUNKS * C_GROUP + c % C_GROUP, unit < TAPS * CHUNKS && k / K_GROUP == c / C_GROUP};
}

// Rearranges filters of any elements into the B fragments of a warp. Runs once per set of weights, with one
// thread per word.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    constexpr int BITS = 8 * sizeof(W);
    using Bits = unsigned short;
    const auto* const bits = reinterpret_cast<const Bits*>(args.w);
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= ALL_SLABS * STEPS * ATOMS * 32 * B_REGISTERS) return;
    const int half = index % 2, lane = index / 2 % 32, atom = index / 64 % ATOMS;
    const int step = index / (64 * ATOMS) % STEPS, slab = index / (64 * ATOMS * STEPS);
    const int local_k = channel_of_column(atom, lane / 4), k = slab * SLAB_K + local_k;
    unsigned word = 0;
    for (int i = 0; i < 32 / BITS; ++i) {
        const Element element = element_of(local_k, step, half, lane, i);
        if (!element.exists || k >= K) continue;
        word |= static_cast<unsigned>(tile::load(bits + k * REDUCTION + element.at)) << (BITS * i);
    }
    args.fragments[index] = static_cast<int>(word);
}
