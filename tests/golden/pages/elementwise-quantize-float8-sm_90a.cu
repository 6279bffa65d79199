// quantize:outer=64:channels=256:inner=4096:x_type=bfloat16:out_type=float8_e4m3fn
//
//   y = x / scale in float32, as float8_e4m3fn, saturated
//
// target    sm_90a
// config    elementwise threads=256 vector=8 unroll=4
// launch    quantize<<<8192x1x1, 256, 0 B>>> when: call

@@ // The problem.
ELEMENTS=67108864 CHANNELS=256 INNER=4096

@@ // The config.
THREADS=256 VECTOR=8 UNROLL=4

using X = unsigned short;
using Scale = float;
using Output = unsigned char;

@@ 785061c4 in whole/elementwise-quantize-tensor-sm_90a.cu: // Values derived from one scale, computed once for all elements that share it.
@@ 4+4
