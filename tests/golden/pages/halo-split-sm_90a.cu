// conv2d:n=4:h=7:w=7:c=512:k=512:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    halo_split rows=8 consumers=2 channels=64 split=4
// launch    conv2d_fold<<<512x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<36x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<4608x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<96x1x1, 384, 216064 B>>> when: call

@@ // The problem.
IN_H=7 IN_W=7 C=512 C_GROUP=512 OUT_H=7 OUT_W=7 K=512 K_GROUP=512 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=196 REDUCTION=4608 X_SIGNED=false W_SIGNED=true

@@ // The config.
TILE_H=8 CONSUMERS=2
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int SPLIT = 4;  // blocks of a cluster, which have a tile together

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 64;  // output pixels of a tile
PART_C=128 OWN_ROWS=2 WINDOW_H=10 WINDOW_W=10 ROW=128 SLABS=1 SLOTS=8 TILES_DOWN=1 TILES_ACROSS=1
CHANNEL_TILES=8 TILES=32
constexpr int BLOCKS = 24;  // clusters, which have tiles in turn
WEIGHT_ROWS=512
constexpr int VECTOR_K = 2;  // neighbouring channels that a lane reads or writes at once
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=216064
FOLD_THREADS=128

@@ 976447d7 in whole/halo-body-sm_90a.cu: static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
@@ 3+1
static_assert(PART_C <= SLABS * ROW && (SLABS == 1 || ROW == 128), "slabs cover a block's part of a pixel");
static_assert(PART_C % 32 == 0 && (SPLIT - 1) * PART_C < C && C <= SPLIT * PART_C, "each block has channels");
static_assert(TILE_H == SPLIT * OWN_ROWS && OWN_ROWS % 2 == 0, "each block makes as many rows");

@@ 1758b550 in whole/wgmma-body-sm_90a.cu:     // Initialises the mbarrier: one thread, before fence_mbarrier_init. `arrivals` arrivals complete a phase.
@@ 32+0
    // Waits until the blocks of the cluster have sent all bytes of a phase.
    __device__ __forceinline__ void wait_for_sent(int phase) {
        unsigned is_there;
        do {
            asm volatile(
                "{\n"
                ".reg .pred p;\n"
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 "
                "p, [%1], %2;\n"
                "selp.u32 %0, 1, 0, p;\n"
                "}"
                : "=r"(is_there)
                : "r"(shared_address(this)), "r"(phase % 2)
                : "memory");
        } while (!is_there);
    }

// Arrives at the corresponding mbarrier of another block of the cluster. It orders reads only: to publish
// writes it would have to be a release at cluster scope, which flushes L1.
__device__ __forceinline__ void arrive_in_block(const Mbarrier& mbarrier, int block) {
    const unsigned at = address_in_block(&mbarrier, block);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory");
}

// wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.u8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == false,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.u8 {"
@@ 17+19
        "%28, %29, %30, %31}, "
        "%32, "
        "%33, adds;\n"
@@ 44+17
          SUMS_OF_ATOM(7)

// Which of its cluster's blocks this is. They have a tile together: each multiplies its own input channels,
// and makes the outputs of its own rows of the tile.
__device__ __forceinline__ int rank() { return tile::block_x() % SPLIT; }
__device__ __forceinline__ int first_input_channel() { return rank() * PART_C; }

// The tiles of a cluster, all of the same channels. Neighbours are made at the same time, so that their
// common pixels are in the second-level cache.
struct Tiles {
    int tile = tile::block_x() / SPLIT;
    __device__ __forceinline__ bool any() const { return tile < TILES; }
    __device__ __forceinline__ void advance() { tile += BLOCKS; }
    __device__ __forceinline__ int place() const { return tile / CHANNEL_TILES; }
    __device__ __forceinline__ int column() const { return place() % TILES_ACROSS * 8; }
    __device__ __forceinline__ int row() const { return place() / TILES_ACROSS % TILES_DOWN * TILE_H; }
    __device__ __forceinline__ int own_row() const { return row() + rank() * OWN_ROWS; }
    __device__ __forceinline__ int image() const { return place() / (TILES_ACROSS * TILES_DOWN); }
};
__device__ __forceinline__ int first_channel() { return tile::block_x() / SPLIT % CHANNEL_TILES * TILE_M; }

// The sums of a lane in one row of a tile.
struct alignas(16) RowSums { Sum sum[4]; };

// What the blocks of a cluster have added up of a consumer's tile, each of its own input channels: a block
// gets those of its own rows from all others.
struct Exchange {
    RowSums sums[SPLIT][TILE_M / 64 * OWN_ROWS][128];
    tile::Mbarrier received;  // completes a phase when all of them have come
    tile::Mbarrier emptied;  // and when all blocks have read theirs: the next may be sent

    __device__ __forceinline__ void expect() { received.expect_next(sizeof sums / SPLIT * (SPLIT - 1)); }
    // By one thread, before the blocks of the cluster meet. A consumer without a tile gets nothing.
    __device__ __forceinline__ void open(bool has_tile) {
        received.init(1);
        emptied.init(SPLIT);
        if (has_tile) expect();
    }
};

// By a consumer: makes of the sums of all blocks those of its own rows. `goes_on` tells whether it has
// another tile, as the same consumer of every other block has then.
__device__ __forceinline__ void exchange_sums(
    Exchange& exchange, int consumer, int turn, bool goes_on, const Sum (&sums)[TILE_M / 64][ATOMS][4],
    Sum (&own)[TILE_M / 64][OWN_ROWS][4]) {
    const int thread = tile::thread() % 128;
    if (turn > 0) exchange.emptied.wait_for_phase(turn - 1);
#pragma unroll
    for (int m = 0; m < TILE_M / 64; ++m) {
#pragma unroll
        for (int row = 0; row < ATOMS; ++row) {
            const Sum(&of_row)[4] = sums[m][row];
            const RowSums sent = {{of_row[0], of_row[1], of_row[2], of_row[3]}};
            RowSums& place = exchange.sums[rank()][m * OWN_ROWS + row % OWN_ROWS][thread];
            if (row / OWN_ROWS == rank()) {
                place = sent;  // which this thread reads itself
            } else {
                tile::send(place, exchange.received, row / OWN_ROWS, sent);
            }
        }
    }
    exchange.received.wait_for_sent(turn);
#pragma unroll
    for (int m = 0; m < TILE_M / 64; ++m) {
#pragma unroll
        for (int row = 0; row < OWN_ROWS; ++row) {
#pragma unroll
            for (int i = 0; i < 4; ++i) own[m][row][i] = 0;
#pragma unroll
            for (int block = 0; block < SPLIT; ++block) {
                const RowSums got = exchange.sums[block][m * OWN_ROWS + row][thread];
#pragma unroll
                for (int i = 0; i < 4; ++i) own[m][row][i] += got.sum[i];
            }
        }
    }
    if (!goes_on) return;
    tile::warpgroup_barrier(consumer);  // all of its threads have read
    if (thread == 0) {
        exchange.expect();
        for (int block = 0; block < SPLIT; ++block) tile::arrive_in_block(exchange.emptied, block);
    }
}

@@ dd0af321 in whole/halo-body-sm_90a.cu: // A row of shared memory is channels of a pixel, and zeros behind the last. A slab of a window begins at a
@@ 5+1
struct alignas(1024) Staged { unsigned char pixel[8 * OWN_ROWS][TILE_M]; };

@@ 73f325ed in whole/halo-body-sm_90a.cu: struct Shared {
@@ 5+0
    Exchange exchanges[CONSUMERS];

@@ 8ad52268 in whole/halo-body-sm_90a.cu: // One thread asks for the weights of all taps, which do not depend on the launch before, and for one window
@@ 8+0
        const int channel = first_input_channel() + slab % SLABS * ROW;
@@ 9+1
                        slab / SLABS * C + channel, first_channel());
@@ 19+1
            const int channel = first_input_channel() + slab * ROW;
            tile::load_tile(args.pixel_map, &window.slab[slab], full, channel, column, row, tiles.image());

struct alignas(2 * sizeof(Residual)) ResidualPair { Residual element[2]; };
// Two channels of each pixel.
struct alignas(2 * sizeof(Residual)) Residuals {
    Residual element[4];
    __device__ __forceinline__ int operator()(int i) const { return element[i]; }
};

// Those of the two channels from `k` on, and of two pixels from `column` on, that exist.
__device__ __forceinline__ Residuals load_residuals(
    const Arguments& args, int image, int row, int column, int k) {
    Residuals residuals = {};
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        if (row >= OUT_H || column + e >= OUT_W || (!WHOLE_TILES && k >= K)) continue;
        const Residual* const from = args.residual + (((image * OUT_H + row) * OUT_W + column + e) * K + k);
        Residual* const to = &residuals.element[2 * e];
        if constexpr (VECTOR_K == 2) {
            *reinterpret_cast<ResidualPair*>(to) = *reinterpret_cast<const ResidualPair*>(from);
        } else {
            to[0] = from[0];
            if (k + 1 < K) to[1] = from[1];
        }
    }
    return residuals;
}

@@ 9a62fc72 in whole/halo-body-sm_90a.cu: // COUNT rows of a tile from `first` on, as bytes where the copy engine takes them from.
@@ 5+1
    const Sum (&sums)[TILE_M / 64][OWN_ROWS][4], const Tiles& tiles, int m, int first) {
@@ 14+2
        const int row = tiles.own_row() + first + i;
        const Residuals residuals = load_residuals(args, tiles.image(), row, column, k);
        finish_row(args, sums[m][first + i], residuals, channels.channel[m], row, column, k, finished);

@@ 26f2a38c in whole/halo-body-sm_90a.cu: // A consumer's sums become outputs, and the copy engine stores those that lie in the image.
@@ 4+1
    const Sum (&sums)[TILE_M / 64][OWN_ROWS][4], const Tiles& tiles) {
@@ 11+1
        constexpr int WHOLE = OWN_ROWS / 4 * 4;
@@ 16+1
        if constexpr (OWN_ROWS % 4 == 2) {
@@ 23+1
    const int row = tiles.own_row();
    tile::store_tile(args.output_map, &staged, first_channel(), tiles.column(), row, tiles.image());

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 21+0
    tile::wait_for_cluster();  // all blocks have opened their mbarriers
@@ 50+1
        Sum own[TILE_M / 64][OWN_ROWS][4];
        const bool goes_on = tiles.tile + CONSUMERS * BLOCKS < TILES;
        exchange_sums(shared.exchanges[consumer], consumer, turn, goes_on, sums, own);
        write_sums(args, shared, consumer, channels, own, tiles);

@@ 784a272f in whole/halo-body-sm_90a.cu: // One thread, before anybody waits.
@@ 5+0
    for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
        shared.exchanges[consumer].open(Tiles().tile + consumer * BLOCKS < TILES);
    }

extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(SPLIT, 1, 1)
conv2d_halo(const __grid_constant__ Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    tile::launch_dependents();
    if (tile::thread() == 0) open(shared);
    tile::arrive_at_cluster();
    tile::barrier();
    const int group = tile::warpgroup();
    if (group < CONSUMERS) {
        tile::take_registers<CONSUMER_REGISTERS>();
        consume(args, shared, group);
    } else {
        tile::give_registers<PRODUCER_REGISTERS>();
        if (tile::lane() == 0) produce(args, shared, tile::warp() % 4);
    }
}
