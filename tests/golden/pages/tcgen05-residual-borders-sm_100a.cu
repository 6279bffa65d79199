// conv2d:n=8:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_100a
// config    tcgen05 pixels=256 channels=64 writers=2 slab=64 slots=6
// launch    conv2d_fold<<<128x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<9x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_tcgen05<<<50x1x1, 320, 123904 B>>> when: call

@@ // The config.
TILE_M=256 TILE_N=64 WRITERS=2
constexpr int SLOTS = 6;  // slots of the ring of slabs

@@ // Derived values.
WARP_SIZE=32 THREADS=320 SLAB=64 SLAB_CHANNELS=64
constexpr int SLABS = 18;  // slabs per tile: all taps of each 64 channels
constexpr int COLUMNS = 256;  // allocated columns of tensor memory
CHANNEL_TILES=2 TILES=50 BLOCKS=50
constexpr int VECTOR_K = 16;  // neighbouring outputs that a thread writes at once
ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1 COLUMN_CLASSES=3 SMEM_BYTES=123904
FOLD_THREADS=128

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 10+1
@@ 13+2
    tile::TensorMap weight_map;  // map of w
@@ 21+1

// Returns the parameters of channel `k` for a pixel of class `border`.
__device__ __forceinline__ Channel with_offset_of(
    const Arguments& args, const Channel& inner, int border, int k) {
    Channel channel = inner;
    if (border >= 0) channel.offset = tile::load(args.borders + border * K + (k < K ? k : K - 1));
    return channel;
}

// The residuals of channels that are written at once.
constexpr int RESIDUAL_BYTES = sizeof(Residual) * VECTOR_K;
struct alignas(RESIDUAL_BYTES < 16 ? RESIDUAL_BYTES : 16) Residuals {
    Residual element[VECTOR_K];

    __device__ __forceinline__ Residuals(const Arguments& args, int at)
        : Residuals(*reinterpret_cast<const Residuals*>(args.residual + at)) {}
    __device__ __forceinline__ Inputs beside(Sum sum, int i) const { return {sum, element[i]}; }
};

@@ 14d80c90 in pages/tcgen05-body-sm_100a.cu: // Finishes and writes a thread's sums: STRIP channels of one pixel, from `k` on. All lanes of a warp have the
@@ 6+0
    const int border = border_of(pixel);
@@ 17+1
            finished[i] = finish(inputs, with_offset_of(args, channels[i], border, k + at + i));
