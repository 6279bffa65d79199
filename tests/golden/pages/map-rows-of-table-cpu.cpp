// map:shape=8,128,512:in=float16*15360000,int32*128!0..29999:out=float16:do=t0=x0[x1[i1]*512+i2]
//
//   t0 = x0[x1[i1] * 512 + i2]
//   y = t0
//
// target    cpu
// config    map threads=128 vector=8 unroll=1
// launch    map<<<512x1x1, 128, 0 B>>> when: call

using X0 = unsigned short;
using X1 = int;
using Output = unsigned short;

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // float16*15360000
    const X1* x1;  // int32*128!0..29999

@@ 8f36b69d in pages/map-halves-sm_90a.cu: // Computes VECTOR neighbouring elements, of which `first` is the first.
@@ 3+3
    [[maybe_unused]] const int i0 = first / 512 / 128;
    [[maybe_unused]] const int i1 = first / 512 % 128;
    [[maybe_unused]] const int first_i2 = first % 512;
    const Vector<X0> v0 = load_vector(args.x0 + (args.x1[i1] * 512 + first_i2));
@@ 9+1
        [[maybe_unused]] const int i2 = first_i2 + lane;
@@ 11+3
        y.element[lane] = t0 == t0 ? tile::to_half(t0) : static_cast<Output>(0x7e00);

// Entry points: the CPU device calls one per thread.
extern "C" void map_entry(const void* args) {
    map(*static_cast<const Arguments*>(args));
}
