"""The dot products and matrix instructions of each architecture: one builder per family of layouts, one line per
instruction.

An integer sum is the same in any order, so that a permutation of k common to A and B cannot be observed. Each table
keeps the order of its source document, so that the two can be compared.
"""

from __future__ import annotations

from qconv.targets.instruction import (
    Dim,
    DotProduct,
    Fragment,
    MatrixInstruction,
    TensorMemoryInstruction,
    WarpgroupInstruction,
)

SIGNED = ("int8",)
BYTES = ("int8", "uint8")
HALVES = ("float16",)
SUMS = "int32"

# Dot products of four bytes. dp4a and sudot4 mix signs. sdot4 stands for the pair v_dot4_i32_i8 and v_dot4_u32_u8,
# whose operands have the same sign. plain is C++.
DP4A = DotProduct(name="dp4a", vendor="nvidia", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
SDOT4 = DotProduct(name="sdot4", vendor="amd", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
SUDOT4 = DotProduct(name="sudot4", vendor="amd", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
PLAIN = DotProduct(name="plain", vendor="cpu", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
# The CPU device computes these in C++; it emulates all other instructions.
ON_THE_CPU = (PLAIN,)

# mma.sync follows the PTX ISA manual 9.2, "Matrix Fragments for mma.m8n8k16" and "... for mma.m16n8k32".
# The manual's threadID_in_group is the lane's first dimension (4), its groupID the second (8).
MMA_M8N8K16 = MatrixInstruction(
    name="mma_m8n8k16",
    m=8,
    n=8,
    k=16,
    lanes=32,
    a_types=BYTES,
    b_types=BYTES,
    sum_type=SUMS,
    a=Fragment("m", "k", lane=(Dim(4, "k", 4), Dim(8, "m", 1)), element=(Dim(4, "k", 1),)),
    b=Fragment("k", "n", lane=(Dim(4, "k", 4), Dim(8, "n", 1)), element=(Dim(4, "k", 1),)),
    d=Fragment("m", "n", lane=(Dim(4, "n", 2), Dim(8, "m", 1)), element=(Dim(2, "n", 1),), element_bits=32),
    mnemonic="mma.sync.aligned.m8n8k16.row.col.s32.{a}.{b}.s32",
)
MMA_M16N8K32 = MatrixInstruction(
    name="mma_m16n8k32",
    m=16,
    n=8,
    k=32,
    lanes=32,
    a_types=BYTES,
    b_types=BYTES,
    sum_type=SUMS,
    a=Fragment(
        "m",
        "k",
        lane=(Dim(4, "k", 4), Dim(8, "m", 1)),
        element=(Dim(4, "k", 1), Dim(2, "m", 8), Dim(2, "k", 16)),
    ),
    b=Fragment(
        "k",
        "n",
        lane=(Dim(4, "k", 4), Dim(8, "n", 1)),
        element=(Dim(4, "k", 1), Dim(2, "k", 16)),
    ),
    d=Fragment(
        "m",
        "n",
        lane=(Dim(4, "n", 2), Dim(8, "m", 1)),
        element=(Dim(2, "n", 1), Dim(2, "m", 8)),
        element_bits=32,
    ),
    mnemonic="mma.sync.aligned.m16n8k32.row.col.s32.{a}.{b}.s32",
)
# "Matrix Fragments for mma.m16n8k16 with floating point type": lanes hold the bytes that they hold for m16n8k32.
MMA_M16N8K16_F16 = MatrixInstruction(
    name="mma_m16n8k16_f16",
    m=16,
    n=8,
    k=16,
    lanes=32,
    a_types=HALVES,
    b_types=HALVES,
    sum_type="float32",
    a=Fragment(
        "m",
        "k",
        lane=(Dim(4, "k", 2), Dim(8, "m", 1)),
        element=(Dim(2, "k", 1), Dim(2, "m", 8), Dim(2, "k", 8)),
        element_bits=16,
    ),
    b=Fragment(
        "k",
        "n",
        lane=(Dim(4, "k", 2), Dim(8, "n", 1)),
        element=(Dim(2, "k", 1), Dim(2, "k", 8)),
        element_bits=16,
    ),
    d=MMA_M16N8K32.d,
    mnemonic="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    file="mma_m16n8k32",
)

# wgmma follows the PTX ISA manual 9.2, "Asynchronous Warpgroup Level Matrix Instructions": integer widths from table
# "wgmma shapes", layout from "Shared Memory Matrix Layout", K-major without a swizzle.
WGMMA_M64K32 = WarpgroupInstruction(
    name="wgmma_m64k32",
    m=64,
    k=32,
    widths=(8, 16, 24, *range(32, 257, 16)),
    lanes=128,
    a_types=BYTES,
    b_types=BYTES,
    sum_type=SUMS,
    matrix_rows=8,
    matrix_bytes=16,
    mnemonic="wgmma.mma_async.sync.aligned.m64n{n}k32.s32.{a}.{b}",
)

# tcgen05 follows the PTX ISA manual 9.0, "TensorCore 5th Generation Family Instructions": widths of kind::i8 for 128
# rows and one CTA, and "Tensor Memory".
TCGEN05_M128K32 = TensorMemoryInstruction(
    name="tcgen05_m128k32",
    m=128,
    k=32,
    widths=tuple(range(16, 257, 16)),
    columns=512,
    least_columns=32,
    a_types=BYTES,
    b_types=BYTES,
    sum_type=SUMS,
    mnemonic="tcgen05.mma.cta_group::1.kind::i8",
)


# Four clocks for each pass in LLVM's tables. The clocks of WMMA are derived from the rates in the data sheets.
def _mfma(shape: str, mn: int, k: int, clocks: int) -> MatrixInstruction:
    """Return an MFMA of one block: mn x mn x k, signed only. `shape` is the builtin's spelling of it.

    The lanes of a wavefront form 64 / mn groups. In A and B, a group holds consecutive k. In D, it holds four rows, and
    the groups alternate down the tile.
    """
    groups = 64 // mn
    run = k // groups
    turns = mn // (groups * 4)
    rows = (Dim(4, "m", 1), Dim(turns, "m", groups * 4)) if turns > 1 else (Dim(4, "m", 1),)
    return MatrixInstruction(
        name=f"mfma_i32_{shape}",
        m=mn,
        n=mn,
        k=k,
        lanes=64,
        a_types=SIGNED,
        b_types=SIGNED,
        sum_type=SUMS,
        a=Fragment("m", "k", lane=(Dim(mn, "m", 1), Dim(groups, "k", run)), element=(Dim(run, "k", 1),)),
        b=Fragment("k", "n", lane=(Dim(mn, "n", 1), Dim(groups, "k", run)), element=(Dim(run, "k", 1),)),
        d=Fragment("m", "n", lane=(Dim(mn, "n", 1), Dim(groups, "m", 4)), element=rows, element_bits=32),
        mnemonic=f"__builtin_amdgcn_mfma_i32_{shape}",
        clocks=clocks,
    )


# gfx908 and gfx90a follow cdna1 and cdna2 of ROCm/amd_matrix_instruction_calculator ("the calculator").
MFMA_32X32X8 = _mfma("32x32x8i8", 32, 8, clocks=64)
MFMA_16X16X16 = _mfma("16x16x16i8", 16, 16, clocks=32)

# gfx942 follows the calculator's cdna3. It lacks the two instructions above.
MFMA_32X32X16 = _mfma("32x32x16_i8", 32, 16, clocks=32)
MFMA_16X16X32 = _mfma("16x16x32_i8", 16, 32, clocks=16)

# The instructions that gfx950 adds follow IREE's layouts (IREEGPUAttrs.cpp), which are those of `_mfma`: the calculator
# has no cdna4.
MFMA_32X32X32 = _mfma("32x32x32_i8", 32, 32, clocks=32)
MFMA_16X16X64 = _mfma("16x16x64_i8", 16, 64, clocks=16)

# gfx1100 follows the calculator's rdna3, wave32: each half of the wave holds all of A and B; rows of D alternate.
WMMA_GFX11 = MatrixInstruction(
    name="wmma_i32_16x16x16_iu8_gfx11",
    m=16,
    n=16,
    k=16,
    lanes=32,
    a_types=BYTES,
    b_types=BYTES,
    sum_type=SUMS,
    a=Fragment("m", "k", lane=(Dim(16, "m", 1), Dim(2, "copy", 0)), element=(Dim(16, "k", 1),)),
    b=Fragment("k", "n", lane=(Dim(16, "n", 1), Dim(2, "copy", 0)), element=(Dim(16, "k", 1),)),
    d=Fragment("m", "n", lane=(Dim(16, "n", 1), Dim(2, "m", 1)), element=(Dim(8, "m", 2),), element_bits=32),
    mnemonic="__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32",
    clocks=32,
)

# gfx1201 follows the calculator's rdna4, wave32: no copies, the halves of the wave split k; rows of D are in order.
WMMA_GFX12 = MatrixInstruction(
    name="wmma_i32_16x16x16_iu8_gfx12",
    m=16,
    n=16,
    k=16,
    lanes=32,
    a_types=BYTES,
    b_types=BYTES,
    sum_type=SUMS,
    a=Fragment("m", "k", lane=(Dim(16, "m", 1), Dim(2, "k", 8)), element=(Dim(8, "k", 1),)),
    b=Fragment("k", "n", lane=(Dim(16, "n", 1), Dim(2, "k", 8)), element=(Dim(8, "k", 1),)),
    d=Fragment("m", "n", lane=(Dim(16, "n", 1), Dim(2, "m", 8)), element=(Dim(8, "m", 1),), element_bits=32),
    mnemonic="__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12",
    clocks=8,
)
