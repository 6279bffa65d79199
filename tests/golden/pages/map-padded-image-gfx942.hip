// map:shape=8,226,226,3:in=uint8*1204224:out=uint8:
//     do=t0=guarded(x0[i0*150528+i1*672+i2*3+i3-675],114,i1-1,224,i2-1,224)
//
//   t0 = guarded(x0[i0 * 150528 + i1 * 672 + i2 * 3 + i3 - 675], 114, i1 - 1, 224, i2 - 1, 224)
//   y = t0
//
// target    gfx942
// config    map threads=128 vector=1 unroll=2
// launch    map<<<4789x1x1, 128, 0 B>>> when: call

@@ // The problem.
ELEMENTS=1225824

@@ // The config.
THREADS=128 VECTOR=1 UNROLL=2

using X0 = unsigned char;
using Output = unsigned char;

@@ 57ade391 in pages/pooling-max-sm_90a.cu: // The kernel's only parameter.
@@ 3+1
    const X0* x0;  // uint8*1204224

@@ 8f36b69d in pages/map-halves-sm_90a.cu: // Computes VECTOR neighbouring elements, of which `first` is the first.
@@ 3+3
    [[maybe_unused]] const int i0 = first / 3 / 226 / 226;
    [[maybe_unused]] const int i1 = first / 3 / 226 % 226;
    [[maybe_unused]] const int i2 = first / 3 % 226;
    [[maybe_unused]] const int first_i3 = first % 3;
@@ 9+5
        [[maybe_unused]] const int i3 = first_i3 + lane;
        const int t0 = static_cast<unsigned>(i1 - 1) < 224u && static_cast<unsigned>(i2 - 1) < 224u ? tile::load(args.x0 + (i0 * 150528 + i1 * 672 + i2 * 3 + i3 - 675)) : 114;
        y.element[lane] = static_cast<Output>(t0);
