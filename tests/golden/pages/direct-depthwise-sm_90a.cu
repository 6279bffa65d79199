// conv2d:n=1:h=56:w=56:c=48:k=48:r=3:s=3:pad=1,1,1,1:groups=48:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    direct tile_h=8 tile_w=16 slabs=2 warps=4 batch=2 blocks_per_sm=3
// launch    conv2d_repack_weights<<<15x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_direct<<<56x1x1, 128, 17984 B>>> when: call

@@ // The config.
constexpr int TILE_H = 8;  // output rows per tile
TILE_W=16
constexpr int SLABS = 2;  // slabs of channels per block
WARPS=4 BATCH=2 BLOCKS_PER_SM=3

@@ // Derived values.
WARP_SIZE=32 THREADS=128 TAPS=9 CHUNKS=1 SLAB_K=16 ALL_SLABS=3 STEPS=5
constexpr int ATOMS = 2;  // instructions per step
TILES_H=7 TILES_W=4 SLAB_TILES=2 TILES=56 GRID_BLOCKS=56
constexpr int X_BYTES = 16;  // bytes per copy of x
constexpr int VECTOR_K = 16;  // channels per store
SMEM_BYTES=17984

static_assert(REDUCTION == TAPS * C_GROUP && TAPS == R * S, "REDUCTION must be R * S * C_GROUP");
static_assert(STEPS == (TAPS * CHUNKS + 1) / 2, "STEPS must be half of the chunks of 16 channels");
static_assert(PIXELS % (OUT_H * OUT_W) == 0 && TILES_H * TILE_H >= OUT_H && TILES_W * TILE_W >= OUT_W,
              "TILES_H and TILES_W must cover every output of an image");
static_assert(ATOMS * 8 == SLAB_K && WARPS % SLABS == 0,
              "SLAB_K must be ATOMS * 8");
static_assert(GRID_BLOCKS % SLAB_TILES == 0, "GRID_BLOCKS must be a multiple of SLAB_TILES");

// mma.sync.m16n8k32: A is 16 pixels, B is 8 output channels, each by two chunks of 16 input channels.
[[maybe_unused]] constexpr bool A_SIGNED = X_SIGNED, B_SIGNED = W_SIGNED;
constexpr int A_REGISTERS = 4, B_REGISTERS = 2, D_REGISTERS = 4;

// The input of a block's tile: one plane per chunk, with 16 bytes of every pixel. Eight neighbouring pixels
// cover all banks, and so do eight chunks of one pixel.
constexpr int IN_ROWS = (TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H + 1;
constexpr int IN_COLUMNS = (TILE_W - 1) * STRIDE_W + (S - 1) * DILATION_W + 1;
constexpr int IN_PIXELS = IN_ROWS * IN_COLUMNS;
constexpr int PLANE = (IN_PIXELS + 6) / 8 * 8 + 1;
constexpr int TILE_PIXELS = TILE_H * TILE_W;
constexpr bool ALL_INSIDE = !PADDED && OUT_H % TILE_H == 0 && OUT_W % TILE_W == 0;
struct Input { alignas(16) unsigned char byte[SLABS * CHUNKS][PLANE][16]; };
constexpr int Y_PITCH = SLABS * SLAB_K + 16 / sizeof(Output);
struct Shared {
    Input x[2];  // one tile is multiplied while the next one loads
    // Outputs on their way to device memory. The padding spreads the pixels over the banks.
    alignas(16) Output y[TILE_PIXELS][Y_PITCH];
};
static_assert(sizeof(Shared) == SMEM_BYTES, "SMEM_BYTES must be the size of Shared");

// Loads a tile of the input; each byte is copied to shared memory once.
__device__ __forceinline__ void load_tile(
    const Arguments& args, Input& input, const Tile& tile, tile::Copies& copies) {
    constexpr int CHANNELS = SLABS * CHUNKS * 16;
    constexpr int VECTORS = IN_PIXELS * CHANNELS / X_BYTES, PER_PIXEL = CHANNELS / X_BYTES;
    const int first_row = tile.row * STRIDE_H - PAD_TOP, first_column = tile.column * STRIDE_W - PAD_LEFT;
    const X* const image = args.x + tile.n * (IN_H * IN_W * C);
#pragma unroll 4
    for (int i = tile::thread(); i < VECTORS; i += THREADS) {
        const int pixel = i / PER_PIXEL, channel = i % PER_PIXEL * X_BYTES;
        const unsigned row = first_row + pixel / IN_COLUMNS, column = first_column + pixel % IN_COLUMNS;
        const int c = tile.slab * (CHUNKS * 16) + channel;
        const bool is_inside = ALL_INSIDE || (row < IN_H && column < IN_W);
        unsigned char* const to = &input.byte[channel / 16][pixel][channel % 16];
        copies.copy<X_BYTES>(tile::shared_address(to), image + ((row * IN_W + column) * C + c),
                             is_inside && c < C);
    }
    copies.commit();
}

// Byte `i` of register `half` of B in a lane, for output channel `k` of the slab: the index of its weight,
// and whether the input channel belongs to the output channel's group. The chunks of one tap are consecutive.
struct Element { int at; bool exists; };
__device__ __forceinline__ Element element_of(int k, int step, int half, int lane, int i) {
    const int unit = 2 * step + half, c = unit % CHUNKS * 16 + lane % 4 * 4 + i;
    return {unit / CHUNKS * C_GROUP + c % C_GROUP, unit < TAPS * CHUNKS && k / K_GROUP == c / C_GROUP};
}

constexpr __device__ int offset_of(int unit) {
    const int tap = unit / CHUNKS;
    return unit < TAPS * CHUNKS
               ? (unit % CHUNKS * PLANE + tap / S * DILATION_H * IN_COLUMNS + tap % S * DILATION_W) * 16
               : 0;
}

// Computes all products of the groups of 16 pixels that a warp processes together. Lane l supplies the
// address of the window of pixel l % 16, in the first or the second unit of a step.
__device__ __forceinline__ void multiply(
    Input& input, int local_slab, int first_sixteen, const Filters& filters, Sums (&sums)[BATCH]) {
    const int half = tile::lane() / 16, local = tile::lane() % 16;
    const int row = TILE_W < 16 ? local / 8 : 0, column = TILE_W < 16 ? local % 8 : local;
    const auto base = tile::shared_address(&input.byte[local_slab * CHUNKS][0][0]);
    tile::SharedAddress window[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        const int sixteen = first_sixteen + n;
        const int first_row = sixteen / SIXTEENS_OF_ROW * ROWS_OF_SIXTEEN + row;
        const int first_column = sixteen % SIXTEENS_OF_ROW * 16 + column;
        window[n] = base + (first_row * STRIDE_H * IN_COLUMNS + first_column * STRIDE_W) * 16;
    }
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const int offset = half ? offset_of(2 * step + 1) : offset_of(2 * step);
#pragma unroll
        for (int n = 0; n < BATCH; ++n) {
            unsigned x[A_REGISTERS];
            tile::load_matrices(window[n] + offset, x);
            add_products(x, step, filters, sums[n]);
        }
    }
}

// Finishes the outputs and writes them from registers to shared memory.
__device__ __forceinline__ void finish_pixels(
    [[maybe_unused]] const Arguments& args, Shared& shared, [[maybe_unused]] const Tile& tile, int local_slab,
    const Position& position, const Sums& sums, const Channel (&channels)[LANE_K]) {
    const int k = local_slab * SLAB_K + tile::lane() % 4 * LANE_K;
    Output* const first = &shared.y[position.row * TILE_W + position.column][k];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        Finished finished[LANE_K];
#pragma unroll
        for (int n = 0; n < LANE_K; ++n) {
            const int d = i * 2 + n % 2;
            Inputs inputs = {sums.product[n / 2][d]};
            finished[n] = finish(inputs, channels[n]);
        }
        write(first + i * (ROWS_ON * TILE_W + COLUMNS_ON) * Y_PITCH, finished);
    }
}

// Copies the outputs from shared memory to device memory.
struct alignas(sizeof(Output) * VECTOR_K) StoredVector { Output element[VECTOR_K]; };

__device__ __forceinline__ void store_tile(const Arguments& args, const Shared& shared, const Tile& tile) {
    constexpr int PER_PIXEL = SLABS * SLAB_K / VECTOR_K;
#pragma unroll 4
    for (int i = tile::thread(); i < TILE_PIXELS * PER_PIXEL; i += THREADS) {
        const int pixel = i / PER_PIXEL, local = i % PER_PIXEL * VECTOR_K;
        const int row = tile.row + pixel / TILE_W, column = tile.column + pixel % TILE_W;
        const int k = tile.slab * SLAB_K + local;
        if (row >= OUT_H || column >= OUT_W || k >= K) continue;
        Output* const to = args.y + (((tile.n * OUT_H + row) * OUT_W + column) * K + k);
        const auto* const from = reinterpret_cast<const StoredVector*>(&shared.y[pixel][local]);
        *reinterpret_cast<StoredVector*>(to) = *from;
    }
}

// Persistent blocks, as many as are resident at a time, each process several tiles. The input of a tile loads
// into shared memory while the previous tile is multiplied, and serves all taps. Each warp processes one
// slab: input channels of whole groups, whose filters form one matrix, with zeros between the groups, in the
// warp's registers.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) conv2d_direct(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    int index = tile::block_x();
    Tile tile(index);
    tile::Copies copies;
    tile::launch_dependents();
    tile::wait_on_dependency();
    load_tile(args, shared.x[0], tile, copies);
    const int local_slab = tile::warp() % SLABS;
    const int slab = tile.slab + local_slab < ALL_SLABS ? tile.slab + local_slab : ALL_SLABS - 1;
    const Filters filters = load_filters(args, slab);
    Channel channels[LANE_K];
#pragma unroll
    for (int n = 0; n < LANE_K; ++n) {
        const int k = slab * SLAB_K + tile::lane() % 4 * LANE_K + n;
        channels[n] = load_channel(args, k < K ? k : K - 1);
    }
    for (int turn = 0;; turn ^= 1) {
        copies.wait<0>();
        tile::barrier();  // this tile is loaded, and the outputs of the previous one are written
        index += GRID_BLOCKS;
        const bool more = index < TILES;
        const Tile next(more ? index : 0);
        if (more) load_tile(args, shared.x[turn ^ 1], next, copies);
#pragma unroll 1
        for (int first = tile::warp() / SLABS * BATCH; first < SIXTEENS; first += WARPS / SLABS * BATCH) {
            Sums sums[BATCH] = {};
            multiply(shared.x[turn], local_slab, first, filters, sums);
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                finish_pixels(args, shared, tile, local_slab, position_of(first + i), sums[i], channels);
            }
        }
        tile::barrier();
        store_tile(args, shared, tile);
        if (!more) return;
        tile = next;
    }
}
