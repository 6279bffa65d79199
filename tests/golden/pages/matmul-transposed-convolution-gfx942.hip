// matmul:m=1,30,30:n=16:k=4,4,32:in=float32*6272,float32*8192!:out=float32:
//     do=t0=guarded(x0[(m1-k0+4)/2*448+(m2-k1+4)/2*32+k2-960],0.0,(m1-k0+4)%2,1,(m2-k1+4)%2,1,(m1-k0+4)/2-2,14,(m2-k1+4)/2-2,14);t1=x1[k2*256+n0*16+k0*4+k1];t2=multiply(t0,t1);t3=sum_of(t2)
//
//   t0 = guarded(x0[(m1 - k0 + 4) / 2 * 448 + (m2 - k1 + 4) / 2 * 32 + k2 - 960], 0.0, (m1 - k0 + 4) % 2, 1, (m2 - k1 + 4) % 2, 1, (m1 - k0 + 4) / 2 - 2, 14, (m2 - k1 + 4) / 2 - 2, 14)
//   t1 = x1[k2 * 256 + n0 * 16 + k0 * 4 + k1]
//   t2 = multiply(t0, t1)
//   t3 = sum_of(t2)
//   y = t3
//
// target    gfx942
// config    matmul threads=128 tile_m=1 tile_n=16 thread_m=1 thread_n=1 slab=128
// launch    matmul<<<900x1x1, 128, 19456 B>>> when: call

@@ // The problem.
M=900 N=16 DEPTH=512

@@ // The config.
THREADS=128
constexpr int TILE_M = 1;
constexpr int TILE_N = 16;
constexpr int THREAD_M = 1;
constexpr int THREAD_N = 1;
constexpr int SLAB = 128;

@@ // Derived values.
constexpr int TILES_M = 900;  // blocks per column of a batch
constexpr int TILES_N = 1;  // blocks per row of a batch
ROW_THREADS=1 COLUMN_THREADS=16 LEFT_VECTOR=1 RIGHT_VECTOR=1 LEFT_ALONG_K=true RIGHT_ALONG_K=false
WRITE_ALONG_M=false
constexpr int SLABS = 4;
BUFFERS=2 SMEM_BYTES=19456

@@ 2aa1b181 in pages/reduce-normalization-gfx942.hip: using X0 = float;
@@ 3+1

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // float32*6272
    const X1* x1;  // float32*8192!

@@ cc01f85c in pages/matmul-convolution-sm_90a.cu: // The left factor has M rows, the right one N columns. Threads fetch neighbours along k, or across it.
@@ 9+7
        [[maybe_unused]] const int m2 = row % 30;
        [[maybe_unused]] const int m1 = row / 30 % 30;
        [[maybe_unused]] const int k2 = k % 32;
        [[maybe_unused]] const int k1 = k / 32 % 4;
        [[maybe_unused]] const int k0 = k / 32 / 4;
        const float t0 = static_cast<unsigned>((m1 - k0 + 4) % 2) < 1u && static_cast<unsigned>((m2 - k1 + 4) % 2) < 1u && static_cast<unsigned>((m1 - k0 + 4) / 2 - 2) < 14u && static_cast<unsigned>((m2 - k1 + 4) / 2 - 2) < 14u ? tile::load(args.x0 + ((m1 - k0 + 4) / 2 * 448 + (m2 - k1 + 4) / 2 * 32 + k2 - 960)) : 0.0f;
@@ 27+4
        [[maybe_unused]] const int k2 = k % 32;
        [[maybe_unused]] const int k1 = k / 32 % 4;
        [[maybe_unused]] const int k0 = k / 32 / 4;
        const float t0 = tile::load(args.x1 + (k2 * 256 + n0 * 16 + k0 * 4 + k1));

@@ 72d46f6d in pages/matmul-convolution-sm_90a.cu: // Computes an element of the output from its sum.
@@ 5+3
    [[maybe_unused]] const int m2 = row % 30;
    [[maybe_unused]] const int m1 = row / 30 % 30;
@@ 10+3
    args.y[m1 * 480 + m2 * 16 + n0] = t3 == t3 ? t3 : tile::as_float(0x7fc00000u);

@@ b370397d in pages/matmul-convolution-sm_90a.cu: // Adds the products of a slab, k after k.
@@ 4+1
#pragma unroll 16
