// matmul:m=32:n=1000:k=512:in=uint8*16384,int8*512000!,uint8*1,int32*1000!,float32*1000!:out=int8:
//     do=t0=x0[m0*512+k0];t1=x2[0];t2=subtract(t0,t1);t3=x1[n0*512+k0];t4=multiply(t2,t3);t5=sum_of(t4);t6=x3[n0];t7=add(t5,t6);t8=to_float32(t7);t9=x4[n0];t10=multiply(t8,t9);t11=round(t10);t12=minimum(127.0,t11);t13=maximum(-128.0,t12);t14=to_int32(t13)
//
//   t0 = x0[m0 * 512 + k0]
//   t1 = x2[0]
//   t2 = subtract(t0, t1)
//   t3 = x1[n0 * 512 + k0]
//   t4 = multiply(t2, t3)
//   t5 = sum_of(t4)
//   t6 = x3[n0]
//   t7 = add(t5, t6)
//   t8 = to_float32(t7)
//   t9 = x4[n0]
//   t10 = multiply(t8, t9)
//   t11 = round(t10)
//   t12 = minimum(127.0, t11)
//   t13 = maximum(-128.0, t12)
//   t14 = to_int32(t13)
//   y = t14
//
// target    gfx1100
// config    matmul threads=256 tile_m=16 tile_n=32 thread_m=1 thread_n=8 slab=128
// launch    matmul<<<64x1x1, 256, 54272 B>>> when: call

@@ // The problem.
M=32 N=1000 DEPTH=512

@@ // The config.
THREADS=256
constexpr int TILE_M = 16;
constexpr int TILE_N = 32;
constexpr int THREAD_M = 1;
constexpr int THREAD_N = 8;
constexpr int SLAB = 128;

@@ // Derived values.
constexpr int TILES_M = 2;  // blocks per column of a batch
constexpr int TILES_N = 32;  // blocks per row of a batch
ROW_THREADS=16 COLUMN_THREADS=4 LEFT_VECTOR=1 RIGHT_VECTOR=4 LEFT_ALONG_K=true RIGHT_ALONG_K=true
WRITE_ALONG_M=false
constexpr int SLABS = 4;
BUFFERS=2 SMEM_BYTES=54272

@@ 37a0922a in shared.cu: // NaN if an argument is; of two zeros, the positive one is larger.
@@ 3+7
    return __builtin_isunordered(a, b) ? a + b : __builtin_fmaxf(a, b);

// The kernel's only parameter.
struct Arguments {
    const X0* x0;  // uint8*16384
    const X1* x1;  // int8*512000!
    const X2* x2;  // uint8*1
    const X3* x3;  // int32*1000!
    const X4* x4;  // float32*1000!
    Output* y;  // output
};

using Term = int;  // in which terms are multiplied and added
constexpr int PARTS = SLAB;  // of a row of a slab, each of which a thread fetches at a time

@@ cc01f85c in pages/matmul-convolution-sm_90a.cu: // The left factor has M rows, the right one N columns. Threads fetch neighbours along k, or across it.
@@ 9+8
        [[maybe_unused]] const int m0 = row;
        [[maybe_unused]] const int k0 = k;
        const int t0 = tile::load(args.x0 + (m0 * 512 + k0));
        const int t1 = tile::load(args.x2);
        const int t2 = scalar::subtract(t0, t1);
        return t2;
@@ 27+4
        [[maybe_unused]] const int k0 = k;
        const int t0 = tile::load(args.x1 + (n0 * 512 + k0));

__device__ __forceinline__ Term add_product(Term a, Term b, Term sum) {
    return scalar::add(sum, scalar::multiply(a, b));
}

@@ ef81ad41 in pages/matmul_mma-bytes-sm_90a.cu: // Computes an element of the output from its sum.
@@ 17+1
    args.y[m0 * 1000 + n0] = static_cast<Output>(t14);

@@ b370397d in pages/matmul-convolution-sm_90a.cu: // Adds the products of a slab, k after k.
@@ 4+1
#pragma unroll 8
