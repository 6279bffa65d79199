// map:shape=8,20,33:in=int8*4608:out=int8:do=t0=guarded(x0[i0*576+i2*18+i1-20],7,i1-2,18,i2-1,32)
//
//   t0 = guarded(x0[i0 * 576 + i2 * 18 + i1 - 20], 7, i1 - 2, 18, i2 - 1, 32)
//   y = t0
//
// target    gfx942
// config    map threads=128 vector=1 unroll=1
// launch    map<<<42x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=5280

@@ // The config.
THREADS=128 VECTOR=1 UNROLL=1

using X0 = signed char;
using Output = signed char;

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // int8*4608

@@ 41d98f75 in pages/map-sigmoid-of-a-broadcast-sum-sm_90a.cu: // Computes VECTOR neighbouring elements, of which `first` is the first.
@@ 3+5
    [[maybe_unused]] const int i0 = first / 33 / 20;
    [[maybe_unused]] const int i1 = first / 33 % 20;
    [[maybe_unused]] const int first_i2 = first % 33;
    
@@ 12+5
        const int t0 = static_cast<unsigned>(i1 - 2) < 18u && static_cast<unsigned>(i2 - 1) < 32u ? tile::load(args.x0 + (i0 * 576 + i2 * 18 + i1 - 20)) : 7;
        y.element[lane] = static_cast<Output>(t0);

@@ 11dce5c5 in pages/map-sigmoid-of-a-broadcast-sum-sm_90a.cu: // A block has UNROLL rows of THREADS vectors each.
@@ 3+2
