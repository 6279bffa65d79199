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

@@ // The config.
constexpr int TILE_H = 8;  // output rows of a block
TILE_W=14 BLOCKS_PER_SM=2 CLUSTER_BLOCKS=2

@@ // What follows.
WARP_SIZE=32 THREADS=128 TILES_H=7 TILES_W=4 TILES=896 GRID_TEAMS=132 MID_STRIDE_H=1 MID_STRIDE_W=1
MID_PAD_TOP=0 MID_PAD_LEFT=0 MID_CHUNKS=9 MID_PLANE=113 PART_CHUNKS=5 SMEM_BYTES=19120

@@ d8ff2dca in whole/fused-small-image-sm_90a.cu:     // Initialises the mbarrier and announces bytes: one thread, before others wait or send.
@@ 18+2
    // Announces the bytes of the next phase: one thread, once the last phase is complete and before others
    // send.
    __device__ __forceinline__ void expect_next(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
                     "r"(bytes)
                     : "memory");
    }
    __device__ __forceinline__ void wait() { wait_for_phase(0); }
    // Waits until all bytes of a phase have arrived; phases are numbered from 0.
    __device__ __forceinline__ void wait_for_phase(int phase) {
@@ 26+1
                "p, [%1], %2;\n"
@@ 30+1
                : "r"(shared_address(this)), "r"(phase % 2)

// Copies bytes, a multiple of 16, to the same place in another block of the cluster: one thread.
__device__ __forceinline__ void send_bulk(const void* from, int bytes, const Mbarrier& mbarrier, int block) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(address_in_block(from, block)), "r"(shared_address(from)), "r"(bytes),
        "r"(address_in_block(&mbarrier, block))
        : "memory");
}

// The threads that have a tile together: all of a block.
struct Team {
    int first;  // of its tiles, which are GRID_TEAMS apart
    int cluster_block;  // of the CLUSTER_BLOCKS blocks that have the tile together
    int phase = 0;  // tiles that it had before this one

    __device__ __forceinline__ Team()
        : first(tile::block_x() / CLUSTER_BLOCKS), cluster_block(tile::block_x() % CLUSTER_BLOCKS) {}
    __device__ __forceinline__ int first_tile() const { return first; }
    // Numbers within the team.
    static __device__ __forceinline__ int thread() { return tile::thread(); }
    static __device__ __forceinline__ int warp() { return tile::warp(); }
};

@@ // What follows.
WORDS=1 VECTORS=18 BLOCK_K=80 SOURCE_ROWS=10 SOURCE_COLUMNS=16 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=false

@@ 41982626 in whole/fused-small-image-sm_90a.cu: // The kernel's only parameter.
@@ 8+1

@@ fd3fc64a in whole/fused-small-image-sm_90a.cu: // Threads that are neighbours have neighbouring channels of the block's.
@@ 2+3
constexpr int VECTORS_OF_BLOCK = BLOCK_K / VECTOR;
__device__ __forceinline__ int begin_k(const Team& team) { return team.cluster_block * BLOCK_K; }
__device__ __forceinline__ int end_k(const Team& team) {
    return begin_k(team) + BLOCK_K < K ? begin_k(team) + BLOCK_K : K;
}

@@ // The config.
constexpr int ATOMS = 1;  // of channels, of a warp
constexpr int BATCH = 2;  // atoms of pixels that it has at a time

@@ // What follows.
constexpr int ATOM_M = 16;  // pixels of one instruction
constexpr int ATOM_N = 8;  // channels of one instruction
constexpr int SLAB_K = 8;  // output channels of a warp
ALL_SLABS=3 BLOCK_SLABS=2 TAPS=1
constexpr int CHUNKS = 9;  // of 16 input channels that a slab looks at
ALL_CHUNKS=9
constexpr int UNITS = 9;  // chunks of a slab's reduction
STEP_CHUNKS=2
constexpr int STEPS = 5;  // along the reduction
SOURCE_ROWS=8 SOURCE_COLUMNS=14 SOURCE_PLANE=113 GRID_ROWS=8 GRID_COLUMNS=14 GRID_PIXELS=112
HAS_K_REMAINDER=false VECTOR_K=2

// The first of the block's slabs.
__device__ __forceinline__ int first_slab(const Team& team) { return team.cluster_block * BLOCK_SLABS; }

// The weights of a block's slabs in shared memory. One step more is read, and not used.
struct alignas(16) SmemWeights {
    int weights[BLOCK_SLABS * SLAB_WORDS + STEP_WORDS];
    alignas(16) tile::Mbarrier mbarrier;
};

// Copies the block's weights to shared memory: asks for them, and does not wait.
__device__ __forceinline__ void load_weights(
    [[maybe_unused]] Team& team, const Arguments& args, SmemWeights& smem) {
    constexpr int BYTES = BLOCK_SLABS * SLAB_WORDS * 4;
    const int* const from = args.fragments + first_slab(team) * SLAB_WORDS;
    if (tile::thread() == 0) smem.mbarrier.fetch(smem.weights, from, BYTES);
}

@@ aea5eeca in whole/fused-small-image-sm_90a.cu: struct Shared {
@@ 4+0
    alignas(16) tile::Mbarrier mbarrier;

// What a block of a cluster computes of the intermediate, and what the others send it.
struct Part {
    int first, count;  // chunks

    __device__ __forceinline__ explicit Part(int cluster_block)
        : first(cluster_block * PART_CHUNKS),
          count(MID_CHUNKS - first < PART_CHUNKS ? MID_CHUNKS - first : PART_CHUNKS) {}

    __device__ __forceinline__ int bytes() const { return count * static_cast<int>(sizeof(Mid::byte[0])); }
    __device__ __forceinline__ int bytes_of_others() const {
        return MID_CHUNKS * static_cast<int>(sizeof(Mid::byte[0])) - bytes();
    }
};

// The CLUSTER_BLOCKS blocks of a cluster have each tile together. Each computes some channels of the
// intermediate.
// It leaves them in its shared memory, as bytes, and sends them to the others; in all of them the second
// convolution finds its inputs.
// The next tile's input comes meanwhile, into the cache.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) __cluster_dims__(CLUSTER_BLOCKS, 1, 1)
conv2d_conv2d(const Arguments args) {
    Shared& shared = tile::shared_memory<Shared>();
    Team team;
    tile::launch_dependents();
    Activations& activations = shared.activations;
    const Part part(team.cluster_block);
    if (tile::thread() == 0) shared.mbarrier.expect(part.bytes_of_others());
    tile::arrive_at_cluster();
    second::load_weights(team, args.second, shared.second_weights);
    tile::wait_on_dependency();
    for (int index = team.first_tile(); index < TILES; index += GRID_TEAMS) {
        const Tile out_tile(index);
        tile::barrier();  // the last intermediate has been read
        const first::Sink mid(activations.mid);
        first::run(team, args.first, out_tile, mid);
        tile::fence_proxy_async();
        tile::barrier();
        if (index + GRID_TEAMS < TILES) first::prefetch_l2(args.first, Tile(index + GRID_TEAMS));
        tile::wait_for_cluster();  // they expect it, and have read what lay there
        if (tile::thread() < CLUSTER_BLOCKS && tile::thread() != team.cluster_block) {
            const unsigned char* const from = activations.mid.byte[part.first][0];
            tile::send_bulk(from, part.bytes(), shared.mbarrier, tile::thread());
        }
        team.phase = index / GRID_TEAMS;
        shared.mbarrier.wait_for_phase(team.phase);
        tile::arrive_at_cluster();
        if (index == team.first_tile()) {
            shared.second_weights.mbarrier.wait();  // they came meanwhile
        }
        const second::Sink out(args.second, out_tile);
        second::run(team, args.second, shared.second_weights, activations.mid, out);
        tile::wait_for_cluster();  // until nothing of this block's memory is on its way
        if (index + GRID_TEAMS < TILES) {
            if (tile::thread() == 0) shared.mbarrier.expect_next(part.bytes_of_others());
            tile::arrive_at_cluster();  // what it has read of the others' bytes it has used
        }
    }
}
