// dynamic:outer=1:channels=512:inner=4096:x_type=bfloat16:out_type=float8_e4m3fn
//
//   scale of each channel: its largest magnitude / 448
//   y = x / scale in float32, as float8_e4m3fn, saturated
//
// target    sm_90a
// config    choosing threads=256 team=256 vector=8 unroll=4 slices=1
// launch    dynamic<<<512x1x1, 256, 2048 B>>> when: call

@@ // Derived values.
TEAMS=1 IN_REGISTERS=true SLICE=4096 SMEM_BYTES=2048

using X = unsigned short;
using Output = unsigned char;
using Scale = float;

@@ a9beb9a5 in whole/elementwise-quantize-tensor-sm_90a.cu: // The kernel's only parameter.
@@ 4+2
@@ 7+0
    Scale* scale;  // one per tensor, channel or block

@@ ff80ae10 in pages/choosing-choose-tensor-sm_90a.cu: struct Choice {
@@ 3+1

@@ 3de37240 in pages/choosing-choose-tensor-sm_90a.cu: // Computes a scale and a zero point from the extremes. The contract fixes the order and the rounding of the
@@ 7+1
@@ 10+3
    float unit = tile::divide(tile::maximum(-smallest, largest), 448.0f);
    unit = tile::minimum(tile::maximum(unit, 1.1754943508222875e-38f), 3.4028234663852886e+38f);
@@ 14+1
    return {scale};


// Values derived from one scale, computed once for all elements that share it.
struct Prepared {
    float divisor;  // scale as float32
};

@@ a266a61c in pages/choosing-choose-tensor-sm_90a.cu: __device__ __forceinline__ void store(const Arguments& args, unsigned channel, const Choice& choice) {
@@ 3+1

@@ f9698704 in pages/choosing-dynamic-token-sm_90a.cu: __device__ __forceinline__ void convert_slice(
@@ 3+1
    const Prepared prepared = prepare(choice.scale);
