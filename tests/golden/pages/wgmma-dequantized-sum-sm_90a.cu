// conv2d:n=8:h=28:w=28:c=128:k=256:r=3:s=3:pad=1,1,1,1:x_type=float8_e4m3fn:w_type=float8_e4m3fn:
//     out_type=float8_e4m3fn:per_channel:bias=float32:activation=relu:residual=float8_e4m3fn:
//     residual_add=dequantized
//
// target    sm_90a
// config    wgmma consumers=2 split_pixels=0 pixels=192 weight_slots=3 lag=2
// launch    conv2d_repack_weights<<<576x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_wgmma<<<33x1x1, 384, 222208 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=384 PRODUCER_REGISTERS=40 CONSUMER_REGISTERS=232
constexpr int TILE_M = 128;  // output channels per consumer
SLAB=128 SLAB_CHANNELS=128
constexpr int SLABS = 9;  // slabs per tile: all taps of each 128 channels
PIXEL_RINGS=1 WEIGHT_RINGS=2 PIXEL_SLOTS=3 RESIDUAL_SLOTS=1 CHANNEL_TILES=1 TILES=33 BLOCKS=33
constexpr int WEIGHT_ROWS = 256;  // output channels, padded with zeros to a multiple of 128
VECTOR_K=4 SMEM_BYTES=222208

@@ af91d702 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 7+3
    const float* bias;  // per channel: fp32 bias / (x_scale * w_scale)
    const float* multiplier;  // per channel: x_scale * w_scale / inner_scale
@@ 11+1
@@ 15+0
    float inner_scale;  // the scale of its own output
@@ 16+4
    float y_scale;  // the output scale

// wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of 128 bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == true,
              "W and X must have the types of the instruction");
struct Operand {
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 2+1
#define SUMS_OF_ATOM(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
@@ 9+1
        "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {"
@@ 35+1
        "%97, adds, 1, 1;\n"

@@ 0b092d92 in pages/wgmma-residual-borders-sm_90a.cu: // The four residuals of a lane, packed as in shared memory.
@@ 4+2
    __device__ __forceinline__ int operator()(int i) const {
        return tile::byte_as_int<Residual>(word, i);

__device__ __forceinline__ Residuals load_residuals(const unsigned char* from) {
    return {*reinterpret_cast<const unsigned*>(from)};
}

@@ 0d3f2b92 in whole/wgmma-body-sm_90a.cu: // Finishes and writes a consumer's sums: TILE_N pixels by TILE_M channels from these on. The parameters of a
@@ 4+3
    const Arguments& args, const Sum (&sums)[2][ATOMS][4], const ResidualRows& rows, int first_pixel,
    int first_channel) {
    const int channel = tile::warp() % 4 * 32 + tile::lane() / 4 * 4, row = tile::lane() % 4 * 2;
    const int k = first_channel + channel, pixel = first_pixel + row;
    // Both advance by a constant per eight pixels.
    const unsigned char* const residuals_of[2] = {
        residuals_at(rows, row, channel), residuals_at(rows, row + 1, channel)};
    Output* const y = args.y + (pixel * K + k);
@@ 16+0
            const Residuals residuals = load_residuals(residuals_of[e] + 8 * atom * SLAB);
@@ 19+1
                const Inputs inputs = {four[i], residuals(i)};
@@ 22+2
            if (!WHOLE_PIXELS && pixel + 8 * atom + e >= PIXELS) continue;
            Output* const to = y + (8 * atom + e) * K;
