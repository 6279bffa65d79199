// concat:rows=25088:widths=24:strides=128:offsets=40:x_type=int8
//
// target    gfx942
// config    concat threads=128 vector=8 load=8 unroll=1
// launch    concat<<<588x1x1, 128, 0 B>>> when: call

@@ // The problem.
constexpr int ELEMENTS = 602112;  // elements of the output
WIDTH=24

@@ // The config.
THREADS=128
constexpr int VECTOR = 8;  // neighbouring elements per store
LOAD=8 UNROLL=1

@@ 495dabb8 in pages/concat-scales-sm_90a.cu: // Loads a vector of y, all of it from one slice, beginning at `column`.
@@ 3+2
    if (column < 24) {
        const unsigned at = row * 128 + 40 + column - 0;
@@ 6+8

__device__ __forceinline__ Vector<X> translate_slice(const Vector<X>& x, unsigned column) {
    if (column < 24) return translate<-1>(x);
    return x;
}

@@ 2ecd6515 in pages/concat-scales-sm_90a.cu: // A thread loads all of its vectors before it stores the first. VECTOR divides ELEMENTS.
@@ 3+2
