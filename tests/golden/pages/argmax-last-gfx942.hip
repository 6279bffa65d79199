// argmax:outer=64:length=21:inner=3136:last:x_type=int8
//
//   y = the last index i at which x[i] is the largest element
//
// target    gfx942
// config    argmax threads=64 vector=4 team=2 unroll=1
// launch    argmax<<<1568x1x1, 64, 1024 B>>> when: call

@@ // The problem.
OUTPUTS=200704 LENGTH=21
constexpr int INNER = 3136;  // distance in elements between neighbours along the axis
LAST=true LEAST=-128

@@ // Derived values.
INDEX_BITS=24 TEAMS=32 OUTPUTS_OF_TEAM=4 STEP=1 SMEM_BYTES=1024

using X = signed char;
using Output = long long;

@@ fb575ab3 in pages/argmax-classes-sm_90a.cu: // Neighbouring threads read neighbouring vectors: members of a team along the axis, else teams across it.
@@ 3+2
