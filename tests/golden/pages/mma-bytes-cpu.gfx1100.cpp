// conv2d:n=1:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:x_type=int8:w_type=int8:out_type=int8
//
// target    cpu.gfx1100
// config    mma instruction=0 tile_m=64 tile_n=64 tile_k=32 warp_m=32 warp_n=32 pipeline_stages=2
//           prefetch_fragments=0 split=1 split_last_wave=0 persist=0 stream_k=0 tile_swizzle_width=1 staged=0
// launch    conv2d_mma<<<196x1x1, 128, 8192 B>>> when: call

@@ // Derived values.
WARP_SIZE=32 THREADS=128 ATOM_M=16 ATOM_N=16 ATOM_K=16 K_BLOCK=16 STEPS=5 HAS_REDUCTION_REMAINDER=true
TILES_M=196 TILES_N=1 X_BYTES=1 W_BYTES=1 VECTOR_N=16 X_SIZE=150528 W_SIZE=9408 SMEM_BYTES=8192

// wmma_i32_16x16x16_iu8_gfx11 on the CPU device.
// The lanes of a warp exchange their registers, and each computes the elements of D that it holds. Operands
// in other positions than the hardware expects give wrong sums.
static_assert(WARP_SIZE == 32, "WARP_SIZE must be the lanes of the instruction");
static_assert(A_REGISTERS == 4, "A_REGISTERS must be those of the instruction");
static_assert(B_REGISTERS == 4, "B_REGISTERS must be those of the instruction");
static_assert(D_REGISTERS == 8, "D_REGISTERS must be those of the instruction");

constexpr int M = 16, N = 16, K = 16;
constexpr int PER_WORD = 4;  // elements of a register

// A lane's number, and an element's number within a lane, are mixed-radix numbers whose first dimension
// varies fastest. Each count in a dimension advances `row` rows and `column` columns of the operand. Lanes
// that differ only in a dimension of 0 rows and 0 columns hold copies of the same elements. B is transposed,
// so that k runs along the rows of both factors.
struct Dim { int size, row, column; };
constexpr Dim A_LANE[] = {{16, 1, 0}, {2, 0, 0}};
constexpr Dim A_BYTE[] = {{16, 0, 1}};
constexpr Dim B_LANE[] = {{16, 1, 0}, {2, 0, 0}};
constexpr Dim B_BYTE[] = {{16, 0, 1}};
constexpr Dim D_LANE[] = {{16, 0, 1}, {2, 1, 0}};
constexpr Dim D_SUM[] = {{8, 2, 0}};

// Returns the distance between two lanes that hold copies of the same elements.
template <int DIMS>
constexpr int distance_of_copies(const Dim (&lane_dims)[DIMS]) {
    int lanes = 1;
    for (const Dim& dim : lane_dims) {
        if (dim.row == 0 && dim.column == 0) return lanes;
        lanes *= dim.size;
    }
    return 0;
}

// Checks that copies agree, because the hardware may read either.
__device__ __forceinline__ void check_copies(const unsigned* shown, int line) {
    constexpr int A_DISTANCE = distance_of_copies(A_LANE), B_DISTANCE = distance_of_copies(B_LANE);
    const unsigned* const mine = shown + tile::lane() * LANE_STRIDE;
    const unsigned* const copy_of_a = shown + (tile::lane() ^ A_DISTANCE) * LANE_STRIDE;
    const unsigned* const copy_of_b = shown + (tile::lane() ^ B_DISTANCE) * LANE_STRIDE;
    bool same = true;
    for (int i = 0; i < A_REGISTERS; ++i) same &= mine[i] == copy_of_a[i];
    for (int i = A_REGISTERS; i < A_REGISTERS + B_REGISTERS; ++i) same &= mine[i] == copy_of_b[i];
    if (!same) qconv_cpu_fail("two lanes that hold copies of an operand differ", line);
}

@@ 0f23374d in shared.cpp: // Computes D += A * B by one warp; integers modulo 2**32.
@@ 9+0
    check_copies(shown, line);

// Entry points: the CPU device calls one per thread.
extern "C" void conv2d_mma_entry(const void* args) {
    conv2d_mma(*static_cast<const Arguments*>(args));
}
