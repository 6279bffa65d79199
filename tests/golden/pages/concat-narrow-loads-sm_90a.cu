// concat:rows=25088:widths=96:strides=195:offsets=99:x_type=int8
//
// target    sm_90a
// config    concat threads=128 vector=16 load=1 unroll=1
// launch    concat<<<1176x1x1, 128, 0 B>>> when: call

@@ // The problem.
constexpr int ELEMENTS = 2408448;  // elements of the output
WIDTH=96

@@ // The config.
THREADS=128
constexpr int VECTOR = 16;  // neighbouring elements per store
LOAD=1 UNROLL=1

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors per block
SMEM_BYTES=0

@@ 340b41f3 in pages/concat-scales-sm_90a.cu: // The kernel's only parameter.
@@ 4+3

// Returns the slice unchanged.
__device__ __forceinline__ void prepare_tables(const Arguments&) {}

template <int TABLE>
__device__ __forceinline__ Vector<X> translate(const Vector<X>& x) {
    static_assert(TABLE < 0, "the problem has no tables");
    return x;
}

@@ 495dabb8 in pages/concat-scales-sm_90a.cu: // Loads a vector of y, all of it from one slice, beginning at `column`.
@@ 3+2
    if (column < 96) {
        const unsigned at = row * 195 + 99 + column - 0;
@@ 6+8

__device__ __forceinline__ Vector<X> translate_slice(const Vector<X>& x, unsigned column) {
    if (column < 96) return translate<-1>(x);
    return x;
}
