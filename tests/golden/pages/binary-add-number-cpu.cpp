// add:outer=1:repeat=999:inner=1:a_type=int8:b_type=int8:out_type=uint8
//
// target    cpu
// config    binary threads=64 vector=4 unroll=1
// launch    add<<<4x1x1, 64, 0 B>>> when: call

@@ // The problem.
ELEMENTS=999 REPEAT=999
constexpr int INNER = 1;  // elements per row

@@ // The config.
THREADS=64 VECTOR=4 UNROLL=1

@@ // Derived values.
constexpr int ROWS = 1;  // rows of vectors per block
B_IN_VECTORS=false B_IS_SHARED=true

using A = signed char;
using B = signed char;
using Output = unsigned char;

@@ 8bffc0c8 in pages/binary-add-relu-sm_90a.cu: // A thread loads all of its vectors before it combines the first. Elements that fill no vector are combined
@@ 4+2

// Entry points: the CPU device calls one per thread.
extern "C" void add_entry(const void* args) {
    add(*static_cast<const Arguments*>(args));
}
