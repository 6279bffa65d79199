// matmul:batch=12:m=197:n=197:k=64:in=float32*151296,float32*151296,float32*38809:out=float32:
//     do=t0=x0[b0*12608+m0*64+k0];t1=x1[b0*12608+n0*64+k0];t2=multiply(t0,t1);t3=sum_of(t2);t4=multiply(t3,0.125);t5=x2[m0*197+n0];t6=add(t4,t5)
//
//   t0 = x0[b0 * 12608 + m0 * 64 + k0]
//   t1 = x1[b0 * 12608 + n0 * 64 + k0]
//   t2 = multiply(t0, t1)
//   t3 = sum_of(t2)
//   t4 = multiply(t3, 0.125)
//   t5 = x2[m0 * 197 + n0]
//   t6 = add(t4, t5)
//   y = t6
//
// target    sm_80
// config    matmul threads=128 tile_m=64 tile_n=128 thread_m=8 thread_n=8 slab=16
// launch    matmul<<<96x1x1, 128, 25600 B>>> when: call

@@ // The problem.
M=197 N=197 DEPTH=64

@@ // The config.
THREADS=128
constexpr int TILE_M = 64;
constexpr int TILE_N = 128;
constexpr int THREAD_M = 8;
constexpr int THREAD_N = 8;
constexpr int SLAB = 16;

@@ // Derived values.
constexpr int TILES_M = 4;  // blocks per column of a batch
constexpr int TILES_N = 2;  // blocks per row of a batch
ROW_THREADS=8 COLUMN_THREADS=16 LEFT_VECTOR=4 RIGHT_VECTOR=4 LEFT_ALONG_K=true RIGHT_ALONG_K=true
WRITE_ALONG_M=false
constexpr int SLABS = 4;
BUFFERS=2 SMEM_BYTES=25600

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // float32*151296
    const X1* x1;  // float32*151296
    const X2* x2;  // float32*38809
    Output* y;  // output
};

@@ cc01f85c in pages/matmul-convolution-sm_90a.cu: // The left factor has M rows, the right one N columns. Threads fetch neighbours along k, or across it.
@@ 9+7
        [[maybe_unused]] const int b0 = batch;
        [[maybe_unused]] const int m0 = row;
        [[maybe_unused]] const int k0 = k;
        const float t0 = tile::load(args.x0 + (b0 * 12608 + m0 * 64 + k0));
@@ 26+0
        [[maybe_unused]] const int b0 = batch;
@@ 27+4
        [[maybe_unused]] const int k0 = k;
        const float t0 = tile::load(args.x1 + (b0 * 12608 + n0 * 64 + k0));

// Computes an element of the output from its sum.
__device__ __forceinline__ void finish(
    const Arguments& args, [[maybe_unused]] const Common& common, [[maybe_unused]] int batch,
    [[maybe_unused]] int row, [[maybe_unused]] int column, Term sum) {
    [[maybe_unused]] const int b0 = batch;
    [[maybe_unused]] const int m0 = row;
    [[maybe_unused]] const int n0 = column;
    const Term t3 = sum;
    const float t4 = scalar::multiply(t3, 0.125f);
    const float t5 = tile::load(args.x2 + (m0 * 197 + n0));
    const float t6 = scalar::add(t4, t5);
    args.y[b0 * 38809 + m0 * 197 + n0] = t6 == t6 ? t6 : tile::as_float(0x7fc00000u);
}

@@ c3626135 in pages/matmul-convolution-sm_90a.cu: // A block computes a tile of TILE_M x TILE_N outputs of one batch.
@@ 3+2
