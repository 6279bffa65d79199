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
CHANNEL_BYTES=1 PART_C=26 OWN_ROWS=14 TAP_BYTES=32 WINDOW_H=29 WINDOW_W=9 ROW_STEP=1 WINDOWS_PER_TILE=2
WINDOWS_ACROSS=2 ROW=32 LAST_ROW=32 SLABS=1 CHUNKS_AT_ONCE=4 X_WORDS=42224 SLOTS=16 RELEASES=4 TILES_DOWN=1
TILES_ACROSS=2 CHANNEL_TILES=1 TILES=16 BLOCKS=16 WEIGHT_ROWS=64 SMEM_BYTES=188416

@@ 85496136 in whole/halo-body-sm_90a.cu: // The kernel's only parameter.
@@ 9+1

// Loads a window and stores it. Channels begin within a word, so a chunk is put together from five words.
// Channels behind the last are those of the next pixel, and meet zeros among the weights. Zeros stand for
// pixels outside of the image.
__device__ __forceinline__ void load_window(
    const Arguments& args, Window& window, const TileWindows& tiles) {
    const unsigned* const x = reinterpret_cast<const unsigned*>(args.x);
    for (int index = tile::thread() % 128; index < CHUNKS_OF_WINDOW; index += 128 * CHUNKS_AT_ONCE) {
        unsigned words[CHUNKS_AT_ONCE][5], shifts[CHUNKS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < CHUNKS_AT_ONCE; ++i) {
            const Chunk chunk(index + i * 128);
            const int first = index + i * 128 < CHUNKS_OF_WINDOW ? chunk.first(tiles) : -1;
            shifts[i] = static_cast<unsigned>(first) % 4 * 8;
#pragma unroll
            for (int word = 0; word < 5; ++word) {
                const int at = first / 4 + word;
                words[i][word] = first >= 0 && at < X_WORDS ? tile::load(x + at) : 0;
            }
        }
#pragma unroll
        for (int i = 0; i < CHUNKS_AT_ONCE; ++i) {
            if (index + i * 128 >= CHUNKS_OF_WINDOW) continue;
            tile::Words<4> chunk;
#pragma unroll
            for (int word = 0; word < 4; ++word) {
                const unsigned long long both =
                    static_cast<unsigned long long>(words[i][word + 1]) << 32 | words[i][word];
                chunk.word[word] = static_cast<unsigned>(both >> shifts[i]);
            }
            *reinterpret_cast<tile::Words<4>*>(Chunk(index + i * 128).address(window)) = chunk;
        }
    }
}

__device__ __forceinline__ void gather_windows(const Arguments& args, Shared& shared) {
    WindowRing::State at;
    for (TileWindows tiles; tiles.any(); tiles.advance()) {
        shared.ring.acquire(at);
        load_window(args, shared.windows[at.slot], tiles);
        fill(shared.ring, at);
    }
}
