// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8
//
// target    sm_75
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=32 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 8192 B>>> when: call

@@ // The config.
TILE_M=64 TILE_N=64 TILE_K=32 WARP_M=32 WARP_N=32 PIPELINE_STAGES=2

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=8 ATOM_N=8 ATOM_K=16 K_BLOCK=16 STEPS=5 HAS_REDUCTION_REMAINDER=true
TILES_M=196 TILES_N=1 X_BYTES=1 W_BYTES=1 VECTOR_N=8 SMEM_BYTES=8192

// mma.sync.m8n8k16: A is 8 pixels, B is 8 channels, each by 16 bytes of the reduction. A fragment is one
// register: an 8-row matrix of 16 bytes, of which four lanes hold a row.
[[maybe_unused]] constexpr bool A_SIGNED = X_SIGNED, B_SIGNED = W_SIGNED;
constexpr int A_REGISTERS = 1, B_REGISTERS = 1, D_REGISTERS = 2;

// Computes D += A * B, by one warp.
__device__ __forceinline__ void multiply_add(
    const unsigned (&a)[A_REGISTERS], const unsigned (&b)[B_REGISTERS], Sum (&d)[D_REGISTERS]) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 "
        "{%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(b[0]));
}

struct Fragment {
    static constexpr int ROWS = 8, REGISTERS = 1;
    static __device__ __forceinline__ int row_of(int) { return 0; }
    static __device__ __forceinline__ int chunk_of(int) { return 0; }
    unsigned word[REGISTERS];
};
using XFragment = Fragment;
using WFragment = Fragment;

// A lane holds one pixel of two neighbouring channels; four lanes share the atom's channels.
constexpr int LANE_PIXELS = 1, LANE_CHANNELS = 2;
__device__ __forceinline__ int pixel_of_lane(int) { return tile::lane() / 4; }
__device__ __forceinline__ int channel_lane() { return tile::lane() % 4; }
constexpr __device__ int register_of(int, int channel) { return channel; }
// Return the lane that holds a channel of the atom, and the channel's index within the lane.
__device__ __forceinline__ int lane_of_channel(unsigned channel) { return channel / 2; }
__device__ __forceinline__ int index_of_channel(unsigned channel) { return channel % 2; }

// Loads the tiles of successive steps into shared memory: into registers while the previous step is
// multiplied, and from there to shared memory.
struct Loader {
    static_assert(PIPELINE_STAGES == 2, "PIPELINE_STAGES must be 2");
    const Arguments& args;
    XRows rows;
    Tap tap;  // the thread's column of x
    WColumn column;
    int begin_w[WVectors::COUNT];  // offset of each row of the weights
    int left;  // steps not yet begun
    int stage;  // the stage to fill next
    RegisterTile<XVectors> x;
    RegisterTile<WVectors> w;

    // Loads the first step of a tile part.
    __device__ __forceinline__ void fill(Pipeline& pipeline, const TilePart& tile_part) {
        left = tile_part.end - tile_part.begin;
        stage = 0;
#pragma unroll
        for (int i = 0; i < WVectors::COUNT; ++i) begin_w[i] = begin_of_w(tile_part, i);
        column = WColumn(tile_part.begin * STEP_ELEMENTS + WVectors::element());
        rows = x_rows(tile_part);
        tap = Tap(tile_part.begin * STEP_ELEMENTS + XVectors::element());
        begin<1>(pipeline, 0);
        end(pipeline);
    }

    template <int PARTS>
    __device__ __forceinline__ void begin(Pipeline&, int) {
        static_assert(PARTS == 1, "PARTS must be 1: all is asked for at once");
        if (left <= 0) return;
        fetch_x();
        fetch_w();
    }

    __device__ __forceinline__ void end(Pipeline& pipeline) {
        if (left <= 0) return;
        x.put(pipeline.x[stage]);
        w.put(pipeline.w[stage]);
        --left;
        stage = 1 - stage;
    }

    __device__ __forceinline__ void fetch_x() {
#pragma unroll
        for (int i = 0; i < XVectors::COUNT; ++i) {
            x.words[i].word[0] = gather_x(args, rows.offset[i], rows.inside[i], tap);
        }
        tap.advance<STEP_ELEMENTS>();
    }

    __device__ __forceinline__ void fetch_w() {
        const int index = column.index();
#pragma unroll
        for (int i = 0; i < WVectors::COUNT; ++i) {
            w.words[i] = {};
            if (!WVectors::exists(i)) continue;
            w.words[i].word[0] = gather_w(args.w, begin_w[i], index);
        }
        column.advance<STEP_ELEMENTS>();
    }
};

@@ 8383292c in whole/mma-body-sm_90a.cu: struct Shared {
@@ 2+1

@@ ff9797a3 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Channel channel_at(
@@ 4+1
@@ 6+2
    channel.multiplier = args.multiplier;

@@ ffc57b3c in whole/mma-16x16x32-staged-gfx942.hip: // One block per tile: TILE_M output pixels x TILE_N channels of one group, or of a part of the reduction.
@@ 8+1
