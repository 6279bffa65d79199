// conv2d:n=8:h=28:w=28:c=24:k=24:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:per_channel:
//     bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=16 consumers=2 channels=32
// launch    conv2d_repack_weights<<<18x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<64x1x1, 384, 59392 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=24 C_GROUP=24 OUT_H=28 OUT_W=28 K=24 K_GROUP=24 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=216 X_SIGNED=true W_SIGNED=true

@@ // The config.
TILE_H=16 CONSUMERS=2
constexpr int TILE_M = 32;  // output channels of a tile
SPLIT=1

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_N = 128;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=24 OWN_ROWS=16 TAP_BYTES=32 WINDOW_H=18 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=32 LAST_ROW=32 SLABS=1 CHUNKS_AT_ONCE=4 PART=8 AHEAD=3 SLOTS=8 RELEASES=4 TILES_DOWN=2
TILES_ACROSS=4 CHANNEL_TILES=1 TILES=64 BLOCKS=64 WEIGHT_ROWS=32
constexpr int VECTOR_K = 4;  // neighbouring channels that a lane reads or writes at once
SMEM_BYTES=59392

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 9+1
@@ 11+1

@@ 0f0a9932 in whole/wgmma-body-sm_90a.cu:     // Initialises the mbarriers: one thread, before the barrier of the block or of the cluster. `releases`
@@ 5+1
            full[slot].init(4);  // the warps of the producer

    // For each thread of a producer's warp: waits until the slot is empty.
    __device__ __forceinline__ void acquire(const State& state) {
        if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);
    }

    // For one thread of each warp, once all have written their part and executed a proxy fence.
    __device__ __forceinline__ void fill(const State& state) { full[state.slot].arrive(); }

constexpr int ATOMS = 4;  // of eight columns each, in an instruction
constexpr int STEPS = ((SLABS - 1) * ROW + LAST_ROW) / 32;  // instructions per tap and 64 rows of the product
// Instructions per tile.
[[maybe_unused]] constexpr int PRODUCTS = R * S * STEPS * (TILE_M * TILE_N / (64 * 8 * ATOMS));

// wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8: 64 pixels by TILE_M output channels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {"
@@ 13+23
        "%12, %13, %14, %15}, "
        "%16, "
        "%17, adds;\n"
@@ 40+21
          SUMS_OF_ATOM(3)

static_assert(SPLIT == 1, "lanes bring all channels of a pixel");
static_assert(TAP_BYTES >= C && TAP_BYTES % 16 == 0, "TMA copies the weights of a tap in whole chunks");

constexpr int CHUNKS = 2 * STEPS;  // of a pixel
constexpr int CHUNKS_OF_WINDOW = WINDOW_H * WINDOW_W * CHUNKS;

// 16 bytes of a pixel in a window: channels, and zeros behind the last one.
struct Chunk {
    int pixel, number;

    __device__ __forceinline__ explicit Chunk(int index) : pixel(index / CHUNKS), number(index % CHUNKS) {}
    __device__ __forceinline__ int channel() const { return number * 16; }
    // Its address in a window, swizzled as TMA would.
    __device__ __forceinline__ unsigned char* address(Window& window) const {
        constexpr int OF_ROW = ROW / 16;
        const int swizzled = number % OF_ROW ^ pixel * ROW / 128 % OF_ROW;
        return &window.slab[number / OF_ROW].pixel[0][0][0] + (pixel * ROW + swizzled * 16);
    }
    // The index of its first channel in the input, or -1 outside of the image.
    __device__ __forceinline__ int first(const TileWindows& tiles) const {
        const int row = tiles.input_row() + pixel / WINDOW_W * ROW_STEP;
        const int column = tiles.input_column() + pixel % WINDOW_W * STRIDE_W;
        const unsigned place = (static_cast<unsigned>(tiles.image()) * IN_H + row) * IN_W + column;
        const bool exists = static_cast<unsigned>(row) < IN_H && static_cast<unsigned>(column) < IN_W;
        return exists && channel() < C ? static_cast<int>(place * C + channel()) : -1;
    }
};

// A warp of the producer has written its part of a window.
__device__ __forceinline__ void fill(WindowRing& ring, WindowRing::State& at) {
    tile::fence_proxy_async();
    tile::warp_barrier();  // all of the warp's part is there
    if (tile::lane() == 0) ring.fill(at);
    at.advance();
}

static_assert(C % PART == 0 && (PART == 4 || PART == 8), "pixels must be whole parts, which cp.async copies");

// Copies a window asynchronously, PART channels at a time: they begin at a multiple of PART. Zeros stand for
// channels behind the last, and for pixels outside of the image.
__device__ __forceinline__ void copy_window(
    const Arguments& args, tile::Copies& copies, Window& window, const TileWindows& tiles) {
    // CHUNKS_AT_ONCE overlap, because an address takes a long chain of instructions.
#pragma unroll CHUNKS_AT_ONCE
    for (int index = tile::thread() % 128; index < CHUNKS_OF_WINDOW; index += 128) {
        const Chunk chunk(index);
        unsigned char* const to = chunk.address(window);
        const int first = chunk.first(tiles);
#pragma unroll
        for (int part = 0; part < 16; part += PART) {
            const bool exists = first >= 0 && chunk.channel() + part < C;
            copies.copy<PART>(tile::shared_address(to) + part, args.x + (exists ? first + part : 0), exists);
        }
    }
}

// The copies of a window are a group; AHEAD groups are in flight while the next window is asked for. Behind
// the last window groups are empty, so that the same wait serves all.
__device__ __forceinline__ void gather_windows(const Arguments& args, Shared& shared) {
    tile::Copies copies;
    WindowRing::State asked, at;
    TileWindows tiles;
    int in_flight = 0;
    for (int group = 0; tiles.any() || in_flight > 0; ++group) {
        if (tiles.any()) {
            shared.ring.acquire(asked);
            copy_window(args, copies, shared.windows[asked.slot], tiles);
            asked.advance();
            tiles.advance();
            ++in_flight;
        }
        copies.commit();
        if (group < AHEAD) continue;
        copies.wait<AHEAD>();
        fill(shared.ring, at);
        --in_flight;
    }
}

// Pixels are not whole chunks, which is all that TMA copies: the lanes of four warps bring the windows. One
// thread asks TMA for the weights.
__device__ __forceinline__ void produce(const Arguments& args, Shared& shared) {
    if (tile::thread() % 128 == 0) load_weights(args, shared);
    tile::warp_barrier();
    tile::wait_on_dependency();
    gather_windows(args, shared);
}

// A weight of output channel `k`.
__device__ __forceinline__ W weight_of(const Arguments& args, int k, int tap, int c) {
    return tile::load(args.w + (k * REDUCTION + tap * C + c));
}

// Writes the weights as rows of the product, in which each tap takes TAP_BYTES. Once for a set of weights, a
// thread per word.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    constexpr int ROW_WORDS = R * S * TAP_BYTES / 4;
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= WEIGHT_ROWS * ROW_WORDS) return;
    const int k = channel_of_row(index / ROW_WORDS);
    const int tap = index % ROW_WORDS * 4 / TAP_BYTES, first = index % ROW_WORDS * 4 % TAP_BYTES;
    unsigned word = 0;
    for (int c = first; c < first + 4 && c < C && k < K; ++c) {
        const W weight = weight_of(args, k, tap, c);
        word |= static_cast<unsigned>(static_cast<unsigned char>(weight)) << (c - first) * 8;
    }
    args.weights[index] = static_cast<int>(word);
}
