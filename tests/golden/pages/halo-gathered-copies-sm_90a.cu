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

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_N = 128;  // output pixels of a tile
WINDOW_H=18 WINDOW_W=10 ROW=32 SLABS=1 TAP_BYTES=32 PART=8 AHEAD=3 SLOTS=8 TILES_DOWN=2 TILES_ACROSS=4
CHANNEL_TILES=1 TILES=64 BLOCKS=64 WEIGHT_ROWS=32
constexpr int VECTOR_K = 4;  // neighbouring channels that a lane reads or writes at once
SMEM_BYTES=59392

@@ 976447d7 in whole/halo-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 2+1
static_assert(C_GROUP == C && K_GROUP == K, "one group");
static_assert(C % PART == 0 && (PART == 4 || PART == 8), "pixels are whole parts, which can be copied");
static_assert(TAP_BYTES >= C && TAP_BYTES % 16 == 0, "the weights of a tap are whole chunks");
@@ 5+1
static_assert(TILE_N == 8 * TILE_H && TILE_N % 64 == 0, "a tile is whole instructions");
static_assert(TILE_M % 16 == 0, "a lane has four of each 16 channels");

@@ 67d085c4 in whole/wgmma-body-sm_90a.cu: // Loads the box at these coordinates, innermost first: one thread. The innermost coordinate must be a
@@ 13+12

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 9+1
@@ 11+1

// A ring of slots in shared memory, filled by the warps of a producer and read by consumers. A slot is full
// when each of these warps has filled its part, and empty when all warps of its consumer have released it.
template <int SLOTS>
struct Ring {
    tile::Mbarrier full[SLOTS], empty[SLOTS];
    using State = PipelineState<SLOTS>;

@@ cfbecd10 in whole/wgmma-body-sm_90a.cu:     // Initialises the mbarriers: one thread, before the barrier of the block. `releases` arrivals
@@ 5+1
            full[slot].init(4);  // the warps of the producer

    // For each thread of a producer's warp: waits until the slot is empty.
    __device__ __forceinline__ void acquire(const State& state) {
        if (state.phase > 0) empty[state.slot].wait_for_phase(state.phase - 1);
    }

    // For one thread of each warp, once all have written their part and executed a proxy fence.
    __device__ __forceinline__ void fill(const State& state) { full[state.slot].arrive(); }

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

// A chunk is what lies of a pixel in 16 bytes of a window: channels, and zeros behind the last.
constexpr int CHUNKS = SLABS * ROW / 16;  // of a pixel
constexpr int CHUNKS_OF_WINDOW = WINDOW_H * WINDOW_W * CHUNKS;

// Which pixel of the window it is of, and which of its channels.
struct Chunk {
    int pixel, number;

    __device__ __forceinline__ explicit Chunk(int index) : pixel(index / CHUNKS), number(index % CHUNKS) {}
    __device__ __forceinline__ int channel() const { return number * 16; }
    // Where it lies: exchanged with its neighbours as the copy engine does it.
    __device__ __forceinline__ unsigned char* place(Window& window) const {
        constexpr int OF_ROW = ROW / 16;
        const int exchanged = number % OF_ROW ^ pixel * ROW / 128 % OF_ROW;
        return &window.slab[number / OF_ROW].pixel[0][0][0] + (pixel * ROW + exchanged * 16);
    }
    // Where its channels begin in the input, or -1 outside of the image, of a window that begins there.
    __device__ __forceinline__ int first(int image, int row, int column) const {
        row += pixel / WINDOW_W;
        column += pixel % WINDOW_W;
        const unsigned place = (static_cast<unsigned>(image) * IN_H + row) * IN_W + column;
        const bool exists = static_cast<unsigned>(row) < IN_H && static_cast<unsigned>(column) < IN_W;
        return exists && channel() < C ? static_cast<int>(place * C + channel()) : -1;
    }
};

// PART neighbouring channels begin at a multiple of PART, and are copied at once. Zeros stand for those past
// the last channel, and for pixels outside of the image.
__device__ __forceinline__ void bring_window(
    const Arguments& args, tile::Copies& copies, Window& window, int image, int row, int column) {
    // So many at once, for addresses are long chains of instructions.
#pragma unroll 4
    for (int index = tile::thread() % 128; index < CHUNKS_OF_WINDOW; index += 128) {
        const Chunk chunk(index);
        unsigned char* const to = chunk.place(window);
        const int first = chunk.first(image, row, column);
#pragma unroll
        for (int part = 0; part < 16; part += PART) {
            const bool exists = first >= 0 && chunk.channel() + part < C;
            copies.copy<PART>(tile::shared_address(to) + part, args.x + (exists ? first + part : 0), exists);
        }
    }
}

// By a warp of the producer: its share of a window is there.
__device__ __forceinline__ void fill(WindowRing& ring, WindowRing::State& at) {
    tile::fence_proxy_async();
    tile::warp_barrier();  // all of the warp's share is there
    if (tile::lane() == 0) ring.fill(at);
    at.advance();
}

// The copy engine brings the weights of all taps, which do not depend on the launch before: one thread asks
// for them. Windows it does not bring, whose pixels are no whole 16 bytes: the lanes of four warps do.
__device__ __forceinline__ void produce(const Arguments& args, Shared& shared) {
    if (tile::thread() % 128 == 0) {
        shared.weights_there.expect_next(sizeof shared.weights);
#pragma unroll 1
        for (int slab = 0; slab < R * S * SLABS; ++slab) {
            tile::load_tile(args.weight_map, shared.weights[slab], shared.weights_there,
                            slab / SLABS * TAP_BYTES + slab % SLABS * ROW, first_channel());
        }
    }
    tile::warp_barrier();
    tile::wait_on_dependency();
    const auto column_of = [](const Tiles& tiles) { return tiles.column() - PAD_LEFT; };
    const auto row_of = [](const Tiles& tiles) { return tiles.row() - PAD_TOP; };
    // A group of copies is a window. Behind the last one groups are empty, so that the same wait serves all.
    tile::Copies copies;
    WindowRing::State asked, at;
    Tiles tiles;
    int under_way = 0;
    for (int group = 0; tiles.any() || under_way > 0; ++group) {
        if (tiles.any()) {
            shared.ring.acquire(asked);
            Window& window = shared.windows[asked.slot];
            bring_window(args, copies, window, tiles.image(), row_of(tiles), column_of(tiles));
            asked.advance();
            tiles.advance();
            ++under_way;
        }
        copies.commit();
        if (group < AHEAD) continue;
        copies.wait<AHEAD>();
        fill(shared.ring, at);
        --under_way;
    }
}

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 22+1
        Sum sums[TILE_N / 64][ATOMS][4];
@@ 36+3
                for (int n = 0; n < TILE_N; n += 64) {
                    multiply(products, window.behind(of_window + (n / 8 * WINDOW_W + pixel) * ROW + c),
                             filters.behind(slab * TILE_M * ROW + c), sums[n / 64], slab + c > 0);
@@ 47+1
        if (tile::lane() == 0) shared.ring.release(at);
@@ 49+1
        for (int m = 0; m < TILE_N / 64; ++m) await(sums[m]);
@@ 53+2

@@ 784a272f in whole/halo-body-sm_90a.cu: // One thread, before anybody waits.
@@ 5+1
    shared.ring.open(4);  // the warps of a consumer

@@ 4d72ca77 in whole/halo-body-sm_90a.cu: extern "C" __global__ void __launch_bounds__(THREADS, 1)
@@ 13+1
        produce(args, shared);

// Rearranges the weights into rows of the product. Runs once per set of weights, with one thread per word.
extern "C" __global__ void __launch_bounds__(128)
conv2d_repack_weights(const Arguments args) {
    constexpr int ROW_WORDS = R * S * TAP_BYTES / 4;
    const int index = tile::block_x() * 128 + tile::thread();
    if (index >= WEIGHT_ROWS * ROW_WORDS) return;
    const int k = channel_of_row(index / ROW_WORDS);
    const int tap = index % ROW_WORDS * 4 / TAP_BYTES, first = index % ROW_WORDS * 4 % TAP_BYTES;
    unsigned word = 0;
    for (int c = first; c < first + 4 && c < C && k < K; ++c) {
        const W* const from = args.w + (k * REDUCTION + tap * C + c);
        word |= static_cast<unsigned>(static_cast<unsigned char>(tile::load(from))) << (c - first) * 8;
    }
    args.weights[index] = static_cast<int>(word);
}
