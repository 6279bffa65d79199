// conv2d:n=8:h=28:w=29:c=26:k=64:r=3:s=3:stride=2,2:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8:
//     per_channel:bias=int32:activation=relu
//
// target    sm_90a
// config    halo rows=14 consumers=3 channels=64
// launch    conv2d_repack_weights<<<36x1x1, 128, 0 B>>> when: prepare
// launch    conv2d_halo<<<16x1x1, 512, 188416 B>>> when: call

@@ // The problem.
IN_H=28 IN_W=29 C=26 C_GROUP=26 OUT_H=14 OUT_W=15 K=64 K_GROUP=64 R=3 S=3 STRIDE_H=2 STRIDE_W=2 DILATION_H=1
DILATION_W=1 PAD_TOP=1 PAD_LEFT=1 PADDED=true PIXELS=1680 REDUCTION=234 X_SIGNED=true W_SIGNED=true

@@ // What follows.
WARP_SIZE=32 THREADS=512 PRODUCER_REGISTERS=56 CONSUMER_REGISTERS=152
constexpr int TILE_N = 112;  // output pixels of a tile
constexpr int WINDOW_H = 29;  // rows of a window
constexpr int WINDOW_W = 9;  // and columns, a stride from each other
ROW_STEP=1 WINDOWS=2 WINDOWS_ACROSS=2 ROW=32 SLABS=1 TAP_BYTES=32 X_WORDS=42224 SLOTS=16 TILES_DOWN=1
TILES_ACROSS=2 CHANNEL_TILES=1 TILES=16 BLOCKS=16 WEIGHT_ROWS=64 SMEM_BYTES=188416

static_assert(THREADS == 128 * (CONSUMERS + 1), "the producer is a warpgroup as well");
static_assert(C_GROUP == C && K_GROUP == K, "one group");
static_assert(TAP_BYTES >= C && TAP_BYTES % 16 == 0, "the weights of a tap are whole chunks");
static_assert(C <= SLABS * ROW && (SLABS == 1 || ROW == 128), "slabs of the widest rows cover a pixel");
static_assert(TILE_N == 8 * TILE_H && TILE_H % 2 == 0, "a tile is eight pixels wide");
static_assert(WINDOW_H == ((TILE_H - 1) * STRIDE_H + (R - 1) * DILATION_H) / ROW_STEP + 1 &&
              WINDOW_W == 8 + (S - 1) * DILATION_W / STRIDE_W && WINDOWS % WINDOWS_ACROSS == 0,
              "the windows of all remainders have what a tile looks at");
static_assert(STRIDE_H % ROW_STEP == 0, "rows of a tile lie whole rows of a window from each other");
static_assert(PADDED || (OUT_H <= IN_H && OUT_W <= IN_W), "without padding, every window lies in the image");
static_assert(TILES == PIXELS / (OUT_H * OUT_W) * TILES_DOWN * TILES_ACROSS * CHANNEL_TILES,
              "every image has as many tiles");
static_assert(BLOCKS % CHANNEL_TILES == 0, "a block keeps its channels");

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 9+1

@@ 441325da in pages/halo-gathered-copies-sm_90a.cu:     __device__ __forceinline__ explicit Chunk(int index) : pixel(index / CHUNKS), number(index % CHUNKS) {}
@@ 11+2
        row += pixel / WINDOW_W * ROW_STEP;
        column += pixel % WINDOW_W * STRIDE_W;

// Channels begin within a word, so a chunk is put together from five. Those behind the last channel are of
// the next pixel, and meet zeros among the weights. Zeros stand for pixels outside of the image.
__device__ __forceinline__ void bring_window(
    const Arguments& args, Window& window, int image, int row, int column) {
    constexpr int AT_ONCE = 4;  // chunks of a lane that are under way together
    const unsigned* const x = reinterpret_cast<const unsigned*>(args.x);
    for (int index = tile::thread() % 128; index < CHUNKS_OF_WINDOW; index += 128 * AT_ONCE) {
        unsigned words[AT_ONCE][5], shifts[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            const Chunk chunk(index + i * 128);
            const int first = index + i * 128 < CHUNKS_OF_WINDOW ? chunk.first(image, row, column) : -1;
            shifts[i] = static_cast<unsigned>(first) % 4 * 8;
#pragma unroll
            for (int word = 0; word < 5; ++word) {
                const int at = first / 4 + word;
                words[i][word] = first >= 0 && at < X_WORDS ? tile::load(x + at) : 0;
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (index + i * 128 >= CHUNKS_OF_WINDOW) continue;
            tile::Words<4> chunk;
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                const unsigned long long both =
                    static_cast<unsigned long long>(words[i][word + 1]) << 32 | words[i][word];
                chunk.word[word] = static_cast<unsigned>(both >> shifts[i]);
            }
            *reinterpret_cast<tile::Words<4>*>(Chunk(index + i * 128).place(window)) = chunk;
        }
    }
}

@@ e408432a in pages/halo-gathered-copies-sm_90a.cu: // The copy engine brings the weights of all taps, which do not depend on the launch before: one thread asks
@@ 14+19
    const auto column_of = [](const TileWindows& tiles) {
        return tiles.column() * STRIDE_W - PAD_LEFT + tiles.window % WINDOWS_ACROSS;
    };
    const auto row_of = [](const TileWindows& tiles) {
        return tiles.row() * STRIDE_H - PAD_TOP + tiles.window / WINDOWS_ACROSS;
    };
    WindowRing::State at;
    for (TileWindows tiles; tiles.any(); tiles.advance()) {
        shared.ring.acquire(at);
        bring_window(args, shared.windows[at.slot], tiles.image(), row_of(tiles), column_of(tiles));
@@ 34+1

@@ 68a833d1 in whole/halo-body-sm_90a.cu: // A warpgroup makes every tile whose turn it is. It issues the products of one when the consumer of the tile
@@ 11+1
            for (int window = 0; window < WINDOWS; ++window) at.advance();
@@ 26+3
        WindowRing::State window_at = at;
@@ 30+3
        for (int of_tile = 0; of_tile < WINDOWS; ++of_tile) {
            shared.ring.wait(window_at);
            begin_products();
            const Operand window(&shared.windows[window_at.slot], STRIDE_H / ROW_STEP * WINDOW_W * ROW);
@@ 34+1
            for (int slab = 0; slab < R * S * SLABS; ++slab) {
                const int tap = slab / SLABS, row = tap / S * DILATION_H, column = tap % S * DILATION_W;
                if (row % ROW_STEP * WINDOWS_ACROSS + column % STRIDE_W != of_tile) continue;
                const int of_window = slab % SLABS * static_cast<int>(sizeof(Slab));
                const int pixel = row / ROW_STEP * WINDOW_W + column / STRIDE_W;
@@ 36+3
                for (int c = 0; c < ROW; c += 32) {
#pragma unroll
                    for (int m = 0; m < TILE_M; m += 64) {
                        multiply(products, filters.behind((slab * TILE_M + m) * ROW + c),
                                 window.behind(of_window + pixel * ROW + c), sums[m / 64], slab + c > 0);
                    }
@@ 41+0
            window_at.advance();
@@ 47+1
        if (tile::lane() == 0) {
            WindowRing::State read = at;
            for (int window = 0; window < WINDOWS; ++window, read.advance()) shared.ring.release(read);
        }
