// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:layout=nchw:x_type=uint8:w_type=int8:
//     out_type=uint8:per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6
//
// target    sm_89
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=32 warp_m=32 warp_n=32 pipeline_stages=4
//           prefetch_fragments=1 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_fold<<<64x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_mma<<<196x1x1, 128, 17152 B>>> when: call

@@ // The config.
TILE_M=64 TILE_N=64 TILE_K=32 WARP_M=32 WARP_N=32 PIPELINE_STAGES=4

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=8 ATOM_K=32 K_BLOCK=32 STEPS=5 HAS_REDUCTION_REMAINDER=true
TILES_M=196 TILES_N=1 X_BYTES=1 W_BYTES=1 VECTOR_N=8 SMEM_BYTES=17152 FOLD_THREADS=128

// NCHW: neighbouring elements are pixels, and the reduction runs over the filter's columns first.
constexpr bool CHANNELS_LAST = false;
__device__ __forceinline__ int output_index(int pixel, int k) {
    return (pixel / (OUT_H * OUT_W) * K + k) * (OUT_H * OUT_W) + pixel % (OUT_H * OUT_W);
}

@@ 22d9cb42 in whole/mma-body-sm_90a.cu: __device__ __forceinline__ Window window_of(unsigned pixel, int group) {
@@ 5+1
    return {((image * C + group * C_GROUP) * IN_H + row) * IN_W + column, row, column};

// An element of a window's reduction: channel, filter row, filter column; columns fastest, as the weights are
// stored. `advance` needs no division.
struct Tap {
    int channel, row, column;

    Tap() = default;
    __device__ __forceinline__ explicit Tap(unsigned index)
        : channel(index / (R * S)), row(index / S % R), column(index % S) {}

    template <int BY>
    __device__ __forceinline__ void advance() {
        column += BY % S;
        row += BY / S % R;
        channel += BY / (R * S);
        if (column >= S) {
            column -= S;
            ++row;
        }
        if (row >= R) {
            row -= R;
            ++channel;
        }
    }

    __device__ __forceinline__ int index() const { return (channel * R + row) * S + column; }
    __device__ __forceinline__ bool exists() const { return !HAS_REDUCTION_REMAINDER || channel < C_GROUP; }
    __device__ __forceinline__ int offset() const {
        return (channel * IN_H + row * DILATION_H) * IN_W + column * DILATION_W;
    }

// Gathers elements into a word; each has its own tap.
__device__ __forceinline__ unsigned gather_x(
    const Arguments& args, int offset, [[maybe_unused]] unsigned inside, Tap tap) {
    unsigned word = 0;
#pragma unroll
    for (int j = 0; j < PER_WORD; ++j) {
        unsigned element = 0;
        if (!tap.exists()) {
        } else if (!PADDED || tap.is_inside(inside)) {
            element = static_cast<Bits>(tile::load(args.x + (offset + tap.offset())));
        } else {
            element = static_cast<Bits>(padding_word(args));
        }
        word |= element << (ELEMENT_BITS * j);
        tap.advance<1>();
    }
    return word;
}

__device__ __forceinline__ unsigned gather_w(const W* w, int row, int index) {
    unsigned word = 0;
#pragma unroll
    for (int j = 0; j < PER_WORD; ++j) {
        if (index + j >= REDUCTION) continue;
        const unsigned bits = static_cast<Bits>(tile::load(w + (row + index + j)));
        word |= bits << (ELEMENT_BITS * j);
    }
    return word;
}

@@ 5f44ee17 in whole/mma-body-sm_90a.cu:     template <int PARTS>
@@ 3+3
@@ 9+3
            auto* const word = reinterpret_cast<unsigned*>(operand + XVectors::offset_of(i));
            *word = gather_x(args, rows.offset[i], rows.inside[i], tap);

@@ f1891b36 in whole/mma-body-sm_90a.cu:     template <int PARTS>
@@ 3+1
@@ 8+2
            auto* const word = reinterpret_cast<unsigned*>(operand + WVectors::offset_of(i));
            *word = gather_w(args.w, begin_w[i], index);
