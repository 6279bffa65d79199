// conv2d:n=1:h=224:w=224:c=4:k=21:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=uint8:out_type=float16:
//     x_zero_point:bias=float32:activation=relu
//
// target    cpu.sm_90a
// config    stem_wgmma rows=8 consumers=2 team=4
// launch    conv2d_fold<<<21x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_repack_weights<<<32x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_stem_wgmma<<<4x1x1, 384, 26368 B>>> when: call

@@ // The problem.
IN_H=224 IN_W=224 C=4 C_GROUP=4 OUT_H=112 OUT_W=112 K=21 K_GROUP=21 R=7 S=7 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=3 PAD_LEFT=3 PADDED=true PIXELS=12544 REDUCTION=196 X_SIGNED=true W_SIGNED=false

@@ // The config.
TILE_H=8 CONSUMERS=2 TEAM=4

@@ // What follows.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=72 CONSUMER_REGISTERS=216
constexpr int TILE_M = 64;  // output channels of a tile
constexpr int TILE_N = 64;  // output pixels of a tile
BEFORE_H=4 BEFORE_W=4 SKIPPED=0 TAPS_H=4 ROW_STEPS=2 CELLS_H=11 CELLS_W=12 IMAGE_BYTES=96 IMAGE_SHIFT=0
IMAGES=8 TILES_DOWN=14 TILES_ACROSS=14 CHANNEL_TILES=1 TILES=196 BLOCKS=4 WEIGHT_ROWS=64
constexpr int VECTOR_K = 1;  // channels that a lane writes at once
SMEM_BYTES=26368 FOLD_THREADS=128

// A barrier for the 128 threads of one warpgroup.
__device__ __forceinline__ void warpgroup_barrier(int warpgroup, int line = __builtin_LINE()) {
    qconv_cpu_barrier_of_team(warpgroup, 128, line);
}

// Loads the box at these coordinates, innermost first: one thread. The innermost coordinate must be a
// multiple of 16 bytes. `mbarrier` must expect all bytes of the box, including the zeros outside the array.
__device__ __forceinline__ void load_tile_3d(
    const TensorMap& map, void* to, Mbarrier& mbarrier,
    int c0, int c1, int c2,
    int line = __builtin_LINE()) {
    const int coordinates[] = {c0, c1, c2};
    const unsigned short* const offsets = nullptr;
    qconv_cpu_load_tensor(to, &map, coordinates, offsets, &mbarrier, line);
}

@@ 7966d054 in shared.cu: // The kernel's only parameter.
@@ 7+5
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    int* fragments;  // the filters as the lanes of a consumer hold them
    tile::TensorMap image_map;  // of x
    float multiplier;  // x_scale * w_scale

// wgmma on the CPU device: 64 output channels by TILE_N pixels, 32 bytes of the reduction per product. Each
// lane reads the factors of its own sums: filters from where the lanes of its row load theirs, pixels through
// the same strides as the hardware and as the async proxy sees them.
constexpr int FILTER_WORDS = 128;  // per warp and step

struct Filter {
    const int* of_warp;

    Filter() = default;
    __device__ __forceinline__ explicit Filter(const int* of_warp) : of_warp(of_warp) {}
    __device__ __forceinline__ unsigned word(int row, int i) const {
        const int lane = row % 8 * 4 + i % 4, part = row % 16 / 8 + i / 4 * 2;
        return static_cast<unsigned>(tile::load(of_warp + 4 * lane + part));
    }
};

struct Operand {
    const unsigned char* first;
    int to_chunk, to_eight;
    long to_view;  // from an address to the async proxy's view of it

    Operand() = default;
    // `to_chunk` is the byte distance to the next 16 bytes of the reduction, `to_eight` that to the next
    // eight rows.
    __device__ __forceinline__ Operand(
        const void* begin, int to_chunk, int to_eight, int line = __builtin_LINE())
        : first(static_cast<const unsigned char*>(begin)), to_chunk(to_chunk), to_eight(to_eight),
          to_view(static_cast<const char*>(qconv_cpu_async_proxy_view(begin)) -
                  static_cast<const char*>(begin)) {
        if ((reinterpret_cast<unsigned long>(first) | to_chunk | to_eight) % 16 != 0)
            qconv_cpu_fail("a factor of a warpgroup that is not 16-byte aligned", line);
    }
    __device__ __forceinline__ Operand advance_bytes(int bytes) const {
        Operand operand = *this;
        operand.first += bytes;
        return operand;
    }
    __device__ __forceinline__ unsigned word(int row, int i) const {
        const unsigned char* const matrix = first + row / 8 * to_eight + i / 4 * to_chunk;
        const unsigned char* const at = matrix + row % 8 * 16 + i % 4 * 4;
        static_cast<void>(*static_cast<const volatile unsigned char*>(at));  // a read that the sanitizers see
        return reinterpret_cast<const tile::Words<1>*>(at + to_view)->word[0];
    }
};

using Factor = Filter;
struct Product {
    Factor a;
    Operand b;
    Sum* d;
    bool adds;
    int group;

@@ 39463850 in pages/stem-wgmma-body-sm_90a.cu: // Blocks are persistent. A warpgroup of a block is the producer: TMA copies the images that tiles depend on,
@@ 5+1

@@ c7777b96 in pages/stem-wgmma-body-sm_90a.cu: __device__ __forceinline__ void make_cells(
@@ 10+0
        const int in_row = tiles.row() * 2 - BEFORE_H + row;
        const int in_column = tiles.column() * 2 - BEFORE_W + column;
        const bool exists = static_cast<unsigned>(in_row) < IN_H && static_cast<unsigned>(in_column) < IN_W;
@@ 13+1
            vector[h].word[j] = exists ? word : padding_word(args);

@@ 249b6c2b in pages/depthwise-float16-cpu.cpp: // Entry points: the CPU device calls one per thread.
@@ 8+2
extern "C" void conv2d_stem_wgmma_entry(const void* args) {
    conv2d_stem_wgmma(*static_cast<const Arguments*>(args));
