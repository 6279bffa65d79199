// conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu+conv2d:n=32:h=56:w=56:c=144:k=24:r=1:s=1:x_type=int8:
//     w_type=int8:out_type=int8:per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    fused tile_h=8 tile_w=14 warps=4 blocks_per_sm=2 teams=1 cluster_blocks=2 weights_in_smem=1
//           on_wgmma=0 first_m=2 first_n=2 second_m=2 second_n=1
// launch    first_repack_weights<<<4x1x1, 128, 0 B>>> when: prepare
// launch    second_repack_weights<<<11x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_conv2d<<<264x1x1, 128, 19120 B>>> when: call

@@ d32e6ba5 in pages/fused-depthwise-pointwise-sm_90a.cu: // The config.
@@ 6+1
[[maybe_unused]] constexpr int CLUSTER_BLOCKS = 2;  // blocks that compute a tile together

@@ a5fda853 in pages/fused-depthwise-pointwise-sm_90a.cu: // What follows.
@@ 8+1
constexpr int GRID_TEAMS = 132;  // teams in the grid; each computes every GRID_TEAMS-th tile
@@ 21+2
[[maybe_unused]] constexpr int PART_CHUNKS = 5;  // chunks of the first one that a block computes
constexpr int SMEM_BYTES = 19120;

// Copies bytes, a multiple of 16, to the same place in another block of the cluster: one thread.
__device__ __forceinline__ void send_bulk(const void* from, int bytes, const Mbarrier& mbarrier, int block) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(address_in_block(from, block)), "r"(shared_address(from)), "r"(bytes),
        "r"(address_in_block(&mbarrier, block))
        : "memory");
}

// The threads of one of the CLUSTER_BLOCKS blocks that compute a tile together. Each block computes some of
// the output channels.
struct Team {
    static constexpr int number = 0;

    int first;  // tile; its tiles are GRID_TEAMS apart
    int cluster_block;  // which of the blocks
    int phase = 0;  // tiles that it computed before this one
    bool is_last = true;  // whether this is its last tile
    Copies copies;

    __device__ __forceinline__ Team()
        : first(tile::block_x() / CLUSTER_BLOCKS), cluster_block(tile::block_x() % CLUSTER_BLOCKS) {}

    __device__ __forceinline__ int first_tile() const { return first; }
    static __device__ __forceinline__ int thread() { return tile::thread(); }
    static __device__ __forceinline__ int warp() { return tile::warp(); }

@@ 62eb327e in whole/fused-small-image-sm_90a.cu: // What follows.
@@ 3+4
constexpr int VECTORS = 18;  // vectors of channels
constexpr int BLOCK_K = 80;  // channels per block
constexpr int SOURCE_ROWS = 10;  // input rows that a tile needs
@@ 10+1
constexpr int GRID_ROWS = 8;  // output rows of a tile
@@ 12+2
constexpr int GRID_PIXELS = 112;
constexpr int BORDERED_ROWS = 8;  // those rows and the padding around them
@@ 18+1
constexpr bool DIVIDED = true;  // each of several blocks computes some output channels

@@ 332d0a02 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 8+1

@@ // The config.
ATOMS=1 BATCH=2

@@ df36d7f9 in pages/fused-depthwise-pointwise-sm_90a.cu: // What follows.
@@ 4+2
constexpr int SLAB_K = 8;  // output channels per slab, which is a warp's
constexpr int ALL_SLABS = 3;
@@ 25+4
constexpr bool DIVIDED = true;  // each of several blocks computes some output channels
constexpr bool HAS_K_REMAINDER = false;  // the last slab has channels that do not exist
constexpr int VECTOR_K = 2;  // channels per write

// The weights of the block's slabs in shared memory. A lane reads one step past the last, and does not use
// it.
struct alignas(16) SmemWeights {
    int weights[BLOCK_SLABS * SLAB_WORDS + STEP_WORDS];
    alignas(16) tile::Mbarrier mbarrier;
};

@@ c97d20c9 in whole/fused-small-image-sm_90a.cu: // Copies the block's weights to shared memory: one thread asks for all of them.
@@ 7+1
// Some of the kernel's mbarriers have several phases, and all are waited for in one way.
__device__ __forceinline__ void await_copies(SmemWeights& smem) { smem.mbarrier.wait_for_phase(0); }

    template <class Shared>
    __device__ __forceinline__ BlockWeights(const Arguments&, Shared& shared)
        : smem(shared.second_weights), words(smem.weights) {}

@@ 07c5ec7a in whole/fused-small-image-sm_90a.cu: // The shared memory of a block.
@@ 5+0
    alignas(16) tile::Mbarrier mbarrier;

// The chunks of the intermediate tensor that a block of a cluster computes and sends to the other blocks.
struct Part {
    static constexpr int CHUNK_BYTES = sizeof(Activations::mid.byte[0]);

    int first, count;  // chunks

    __device__ __forceinline__ explicit Part(int cluster_block)
        : first(cluster_block * PART_CHUNKS),
          count(MID_CHUNKS - first < PART_CHUNKS ? MID_CHUNKS - first : PART_CHUNKS) {}

    __device__ __forceinline__ int bytes() const { return count * CHUNK_BYTES; }
    __device__ __forceinline__ int bytes_of_others() const { return MID_CHUNKS * CHUNK_BYTES - bytes(); }
};

// The CLUSTER_BLOCKS blocks of a cluster compute each tile together. A block computes some channels of the
// intermediate tensor, as bytes in its shared memory, and sends them to the other blocks; then it computes
// some channels of the outputs from all of the intermediate tensor. Where there are more tiles than clusters,
// a cluster computes one after the other.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) __cluster_dims__(CLUSTER_BLOCKS, 1, 1)
conv2d_conv2d(const Arguments args) {
    constexpr bool IS_PERSISTENT = GRID_TEAMS < TILES;
    Shared& shared = tile::shared_memory<Shared>();
    Layers layers(args, shared);
    Team& team = layers.team;
    const Part part(team.cluster_block);
    if (tile::thread() == 0) shared.mbarrier.expect(part.bytes_of_others());
    tile::arrive_at_cluster();
    layers.begin();
    layers.load_input(Tile(team.first_tile()));
    int index = team.first_tile();
    do {
        const Tile out_tile(index);
        const bool is_last = !IS_PERSISTENT || index + GRID_TEAMS >= TILES;
        layers.await_input();
        if constexpr (LOADS_INPUT || IS_PERSISTENT) {
            tile::barrier();  // the input is there, and the intermediate tensor is free
        }
        layers.run_first(out_tile);
        if constexpr (Layers::AWAITS_COPIES) team.copies.wait<0>();  // the weights
        tile::fence_proxy_async();  // for the bytes that the block sends, and for warpgroups
        tile::barrier();  // the block's part is there
        if constexpr (IS_PERSISTENT) {
            layers.prefetch_input(index + GRID_TEAMS);
            team.begin_last(index);
        }

        tile::wait_for_cluster();  // the other blocks expect the part, and have used the last tile's
        if (tile::thread() < CLUSTER_BLOCKS && tile::thread() != team.cluster_block) {
            const unsigned char* const from = layers.activations.mid.byte[part.first][0];
            tile::send_bulk(from, part.bytes(), shared.mbarrier, tile::thread());
        }
        shared.mbarrier.wait_for_phase(team.phase);
        tile::arrive_at_cluster();
        layers.run_last(out_tile, index == team.first_tile());
        tile::wait_for_cluster();  // no byte of this block's part is under way any more
        if (!is_last) {
            if (tile::thread() == 0) shared.mbarrier.expect_next(part.bytes_of_others());
            tile::arrive_at_cluster();  // the other blocks' parts have been used
        }
        index += GRID_TEAMS;
    } while (IS_PERSISTENT && index < TILES);
}
