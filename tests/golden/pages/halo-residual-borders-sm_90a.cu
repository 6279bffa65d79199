// conv2d:n=8:h=28:w=28:c=64:k=80:r=3:s=3:pad=1,1,1,1:x_type=uint8:w_type=int8:out_type=uint8:per_channel:
//     x_zero_point:y_zero_point:residual_zero_point:bias=float32:activation=relu:residual=uint8:
//     zero_point_add=before_round:order=multiply_reciprocal:bias_scaling=real:scales=twice_inverted:
//     residual_add=fma
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_fold<<<80x1x1, 128, 512 B>>> when: prepare
// launch    conv2d_fold_borders<<<6x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_repack_weights<<<144x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<128x1x1, 512, 198656 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=28 C=64 C_GROUP=64 OUT_H=28 OUT_W=28 K=80 K_GROUP=80 R=3 S=3 STRIDE_H=1 STRIDE_W=1 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=6272 REDUCTION=576 X_SIGNED=false W_SIGNED=true

@@ // The config.
TILE_H=14 CONSUMERS=3
constexpr int TILE_M = 64;  // output channels of a tile

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=32 CONSUMER_REGISTERS=160
constexpr int TILE_N = 112;  // output pixels of a tile
WINDOW_H=16 WINDOW_W=10 ROW=64 SLABS=1 SLOTS=8 TILES_DOWN=2 TILES_ACROSS=4 CHANNEL_TILES=2 TILES=128
BLOCKS=128 WEIGHT_ROWS=128 ROWS_BEFORE=1 ROWS_BEHIND=1 ROW_CLASSES=3 COLUMNS_BEFORE=1 COLUMNS_BEHIND=1
COLUMN_CLASSES=3 SMEM_BYTES=198656 FOLD_THREADS=128

// Reads back what store_matrices stored of four matrices, to the same lanes.
__device__ __forceinline__ void load_transposed(const void* row, unsigned (&words)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

@@ 9f3408e7 in pages/wgmma-residual-borders-sm_90a.cu: // The kernel's only parameter.
@@ 10+1
    int* weights;  // the weights, with the rows of each 16 channels in the order of the lanes
@@ 12+3
    tile::TensorMap pixel_map;  // of x
    tile::TensorMap weight_map;  // of the weights
    tile::TensorMap output_map;  // of y
    tile::TensorMap residual_map;  // of the residual

// wgmma.mma_async.sync.aligned.m64n112k32.s32.s8.u8: 64 output channels by TILE_N pixels,
// 32 bytes of the reduction per product. Both factors are in shared memory, in rows of ROW bytes with TMA's
// swizzle. Four warps execute it together; its sums are awaited later.
static_assert(W_SIGNED == true && X_SIGNED == false,
              "W and X must have the types of the instruction");
struct Operand {
    static constexpr unsigned long long SWIZZLE = ROW == 128 ? 1 : ROW == 64 ? 2 : 3;
    unsigned long long descriptor;

@@ 5ea0d8a9 in whole/wgmma-body-sm_90a.cu: // Computes D = A * B, or D += A * B if `adds`.
@@ 8+2
        "setp.ne.b32 adds, %58, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n112k32.s32.s8.u8 {"
@@ 23+13
        "%52, %53, %54, %55}, "
        "%56, "
        "%57, adds;\n"
@@ 50+11
          SUMS_OF_ATOM(13)

@@ dd0af321 in whole/halo-body-sm_90a.cu: // A row of shared memory is channels of a pixel, and zeros behind the last. A slab of a window begins at a
@@ 8+0
    Staged residual;

@@ 8ad52268 in whole/halo-body-sm_90a.cu: // One thread asks for the weights of all taps, which do not depend on the launch before, and for one window
@@ 15+1
        tile::Mbarrier& full =
            shared.ring.acquire(at, SLABS * sizeof Slab::pixel + sizeof window.residual);
@@ 21+0
        tile::load_tile(args.residual_map, &window.residual, full, first_channel(), tiles.column(),
                        tiles.row(), tiles.image());

static_assert(sizeof(Residual) == 1, "residuals lie as the outputs of a tile do");
// The four residuals of a lane, packed as in shared memory.
struct Residuals {
    unsigned word;
    __device__ __forceinline__ float operator()(int i) const {
        return tile::byte_as_float<Residual>(word, i);
    }
};

@@ 8c8d6fb1 in whole/halo-body-sm_90a.cu: // The outputs of a lane in one row of a tile: of each pixel its two channels from `k` on.
@@ 3+1
    [[maybe_unused]] const Arguments& args, const Sum (&sums)[4], const Residuals& residuals,
    const Channel (&channels)[2],
@@ 7+0
        const int border = border_of(row * OUT_W + column + e);
@@ 9+2
            const Inputs inputs = {sums[2 * h + e], residuals(2 * e + h)};
            finished[2 * e + h] = finish(inputs, with_offset_of(args, channels[h], border, k + h));

@@ 9a62fc72 in whole/halo-body-sm_90a.cu: // COUNT rows of a tile from `first` on, as bytes where the copy engine takes them from.
@@ 4+1
    const Arguments& args, Staged& staged, Staged& residual, const Channels& channels,
@@ 11+0
    unsigned added[4];
    tile::load_transposed(chunk_of(residual, pixel, chunk), added);
@@ 15+1
        const Residuals residuals = {added[i]};
        finish_row(args, sums[m][first + i], residuals, channels.channel[m], row, column, k, finished);

@@ 26f2a38c in whole/halo-body-sm_90a.cu: // A consumer's sums become outputs, and the copy engine stores those that lie in the image.
@@ 3+1
    const Arguments& args, Shared& shared, int consumer, Staged& residual, const Channels& channels,
@@ 14+1
            stage_rows<4>(args, staged, residual, channels, sums, tiles, m, first);
@@ 17+1
            stage_rows<2>(args, staged, residual, channels, sums, tiles, m, WHOLE);

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 47+1
@@ 50+1
        write_sums(args, shared, consumer, shared.windows[at.slot].residual, channels, sums, tiles);
        if (signals) shared.ring.release(at);
