// map:shape=9,40:in=int64*9,int32*40!0..8:out=int64:do=t0=x0[x1[i1]]
//
//   t0 = x0[x1[i1]]
//   y = t0
//
// target    cpu
// config    map threads=128 vector=1 unroll=1
// launch    map<<<3x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=360

using X0 = long long;
using X1 = int;
using Output = long long;

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // int64*9
    const X1* x1;  // int32*40!0..8

@@ 41d98f75 in pages/map-sigmoid-of-a-broadcast-sum-sm_90a.cu: // Computes VECTOR neighbouring elements, of which `first` is the first.
@@ 3+5
    [[maybe_unused]] const int i0 = first / 40;
    [[maybe_unused]] const int first_i1 = first % 40;
    
@@ 11+6
        [[maybe_unused]] const int i1 = first_i1 + lane;
        const long long t0 = tile::load(args.x0 + (args.x1[i1]));
        y.element[lane] = static_cast<Output>(t0);

// Entry points: the CPU device calls one per thread.
extern "C" void map_entry(const void* args) {
    map(*static_cast<const Arguments*>(args));
}
