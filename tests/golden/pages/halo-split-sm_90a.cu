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
// launch    conv2d_halo<<<96x1x1, 384, 218112 B>>> when: call

@@ // The problem.
IN_H=7 IN_W=7 C=512 C_GROUP=512 OUT_H=7 OUT_W=7 K=512 K_GROUP=512 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=196 REDUCTION=4608 X_SIGNED=false W_SIGNED=true

@@ // The config.
TILE_H=8 CONSUMERS=2
constexpr int TILE_M = 64;  // output channels of a tile
SPLIT=4

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_N = 64;  // output pixels of a tile
CHANNEL_BYTES=1 PART_C=128 OWN_ROWS=2 TAP_BYTES=512 WINDOW_H=10 WINDOW_W=10 ROW_STEP=1 WINDOWS_PER_TILE=1
WINDOWS_ACROSS=1 ROW=128 LAST_ROW=128 SLABS=1 SLOTS=8 RELEASES=1 TILES_DOWN=1 TILES_ACROSS=1 CHANNEL_TILES=8
TILES=32
constexpr int BLOCKS = 24;  // persistent clusters, which take tiles in turn
WEIGHT_ROWS=512
constexpr int VECTOR_K = 2;  // neighbouring channels that a lane reads or writes at once
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=218112
FOLD_THREADS=128

// Arrives at the corresponding mbarrier of another block of the cluster. It orders reads only: to publish
// writes it would have to be a release at cluster scope, which flushes L1.
__device__ __forceinline__ void arrive_in_block(const Mbarrier& mbarrier, int block) {
    const unsigned at = address_in_block(&mbarrier, block);
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory");
}

constexpr int ATOMS = 8;  // of eight columns each, in an instruction
constexpr int STEPS = ((SLABS - 1) * ROW + LAST_ROW) / 32;  // instructions per tap and 64 rows of the product
// Instructions per tile.
[[maybe_unused]] constexpr int PRODUCTS = R * S * STEPS * (TILE_M * TILE_N / (64 * 8 * ATOMS));

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

// The sums of a lane in one row of a tile.
struct alignas(16) RowSums { Sum sum[4]; };

// The sums of a consumer's tile from all blocks of the cluster, each over its own input channels: a block
// receives those of its own rows from the others.
struct Exchange {
    RowSums sums[SPLIT][TILE_M / 64 * OWN_ROWS][128];
    tile::Mbarrier received;  // completes a phase when the sums of all other blocks are here
    tile::Mbarrier emptied;  // completes a phase when all blocks have read theirs: the next may be sent

    __device__ __forceinline__ void expect() { received.expect_next(sizeof sums / SPLIT * (SPLIT - 1)); }
    __device__ __forceinline__ void send(const Sums& own_channels) {
#pragma unroll
        for (int m = 0; m < TILE_M / 64; ++m) {
#pragma unroll
            for (int row = 0; row < TILE_H; ++row) {
                const Sum(&of_row)[4] = own_channels[m][row];
                const RowSums sent = {{of_row[0], of_row[1], of_row[2], of_row[3]}};
                RowSums& place = sums[rank()][m * OWN_ROWS + row % OWN_ROWS][tile::thread() % 128];
                if (row / OWN_ROWS == rank()) {
                    place = sent;  // this thread reads it itself
                } else {
                    tile::send(place, received, row / OWN_ROWS, sent);
                }
            }
        }
    }
    __device__ __forceinline__ void add_up(OwnSums& own) const {
#pragma unroll
        for (int m = 0; m < TILE_M / 64; ++m) {
#pragma unroll
            for (int row = 0; row < OWN_ROWS; ++row) {
#pragma unroll
                for (int i = 0; i < 4; ++i) own[m][row][i] = 0;
#pragma unroll
                for (int block = 0; block < SPLIT; ++block) {
                    const RowSums got = sums[block][m * OWN_ROWS + row][tile::thread() % 128];
#pragma unroll
                    for (int i = 0; i < 4; ++i) own[m][row][i] += got.sum[i];
                }
            }
        }
    }
};

// How a consumer gets the sums of all input channels: the blocks of a cluster multiply different ones, and
// send each other their sums.
struct SumExchange {
    // By one thread, before the blocks of the cluster meet. A consumer without a tile receives nothing.
    template <class SharedMemory>
    static __device__ __forceinline__ void open(SharedMemory& shared) {
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
            Exchange& exchange = shared.exchanges[consumer];
            exchange.received.init(1);
            exchange.emptied.init(SPLIT);
            if (Tiles().tile + consumer * BLOCKS < TILES) exchange.expect();
        }
    }
    // All blocks must have opened their mbarriers before another block sends anything.
    static __device__ __forceinline__ void arrive() { tile::arrive_at_cluster(); }
    static __device__ __forceinline__ void wait() { tile::wait_for_cluster(); }
    // A consumer adds up the sums of all blocks for the rows of its own block.
    template <class SharedMemory>
    static __device__ __forceinline__ const OwnSums& collect(
        SharedMemory& shared, int consumer, int turn, const Tiles& tiles, const Sums& sums, OwnSums& own) {
        Exchange& exchange = shared.exchanges[consumer];
        if (turn > 0) exchange.emptied.wait_for_phase(turn - 1);
        exchange.send(sums);
        exchange.received.wait_for_sent(turn);
        exchange.add_up(own);
        // The same consumer of every other block has as many tiles.
        if (tiles.tile + CONSUMERS * BLOCKS >= TILES) return own;
        tile::warpgroup_barrier(consumer);  // all of its threads have read
        if (tile::thread() % 128 == 0) {
            exchange.expect();
            for (int block = 0; block < SPLIT; ++block) tile::arrive_in_block(exchange.emptied, block);
        }
        return own;
    }
};

@@ 20bbb4d9 in whole/halo-body-sm_90a.cu: struct Shared {
@@ 5+0
    Exchange exchanges[CONSUMERS];
    OffsetsOfClasses offsets;

extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(SPLIT, 1, 1)
conv2d_halo(const __grid_constant__ Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    tile::launch_dependents();
    if (tile::thread() == 0) open(shared);
    shared.offsets.load(args);
    SumExchange::arrive();
    tile::barrier();
    const int group = tile::warpgroup();
    if (group < CONSUMERS) {
        tile::take_registers<CONSUMER_REGISTERS>();
        consume(args, shared, group);
    } else {
        tile::give_registers<PRODUCER_REGISTERS>();
        produce(args, shared);
    }
}
