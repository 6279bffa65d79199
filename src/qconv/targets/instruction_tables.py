"""The dot products and matrix instructions of each architecture: one builder per family of layouts, one line per
instruction.

An integer sum is the same in any order, so that a permutation of k common to A and B cannot be observed. Each table
keeps the order of its source document, so that the two can be compared.
"""

from __future__ import annotations

from dataclasses import replace

from qconv.targets.instruction import (
    REGISTER_BITS,
    Dim,
    DotProduct,
    Fragment,
    MatrixInstruction,
    TensorMemoryInstruction,
    WarpgroupInstruction,
)

SIGNED = ("int8",)
BYTES = ("int8", "uint8")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
SUMS = "int32"
REAL_SUMS = "float32"
# On sm_89 and sm_90, the fraction of a sum of 8-bit floats has 13 bits. Others measured it; no manual states it.
LOST_BITS_OF_FLOAT8 = 10

# Dot products of four bytes. dp4a and sudot4 mix signs. sdot4 stands for the pair v_dot4_i32_i8 and v_dot4_u32_u8,
# whose operands have the same sign. plain is C++.
DP4A = DotProduct(name="dp4a", vendor="nvidia", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
SDOT4 = DotProduct(name="sdot4", vendor="amd", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
SUDOT4 = DotProduct(name="sudot4", vendor="amd", a_types=BYTES, b_types=BYTES, sum_type=SUMS)
PLAIN = DotProduct(name="plain", vendor="cpu", a_types=BYTES, b_types=BYTES, sum_type=SUMS)


def _of_floats(vendor: str) -> tuple[DotProduct, ...]:
    """Return the products of words of floats, in fp32 by plain fma: in the order of the elements."""
    pairs = (("float32",), ("tfloat32",), ("float16",), ("bfloat16",), FLOAT8)
    return tuple(
        DotProduct(
            name=f"fma_{types[0]}", vendor=vendor, a_types=types, b_types=types, sum_type=REAL_SUMS, file="floats"
        )
        for types in pairs
    )


FLOATS_OF_NVIDIA, FLOATS_OF_AMD = _of_floats("nvidia"), _of_floats("amd")
# The CPU device computes these in C++; it emulates all other instructions.
ON_THE_CPU = (PLAIN, *_of_floats("cpu"))

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


def _mma_of_floats(name: str, bits: int, *types: str) -> MatrixInstruction:
    """Return an mma.sync of floats with 32 bytes of each row: "Matrix Fragments for mma.m16n8k8", "... m16n8k16" and
    "... m16n8k32" with floating point types. Lanes hold the bytes that they hold for m16n8k32 of integers."""
    word = REGISTER_BITS // bits  # elements of a register
    along_k = (Dim(word, "k", 1),) if word > 1 else ()
    return MatrixInstruction(
        name=name,
        m=16,
        n=8,
        k=8 * word,
        lanes=32,
        a_types=types,
        b_types=types,
        sum_type=REAL_SUMS,
        a=Fragment(
            "m",
            "k",
            lane=(Dim(4, "k", word), Dim(8, "m", 1)),
            element=(*along_k, Dim(2, "m", 8), Dim(2, "k", 4 * word)),
            element_bits=bits,
        ),
        b=Fragment(
            "k",
            "n",
            lane=(Dim(4, "k", word), Dim(8, "n", 1)),
            element=(*along_k, Dim(2, "k", 4 * word)),
            element_bits=bits,
        ),
        d=MMA_M16N8K32.d,
        mnemonic=f"mma.sync.aligned.m16n8k{8 * word}.row.col.f32.{{a}}.{{b}}.f32",
        file="mma_m16n8k32",
        lost_bits=LOST_BITS_OF_FLOAT8 if bits == 8 else 0,
    )


MMA_M16N8K16_F16 = _mma_of_floats("mma_m16n8k16_f16", 16, "float16")
MMA_M16N8K16_BF16 = _mma_of_floats("mma_m16n8k16_bf16", 16, "bfloat16")
MMA_M16N8K8_TF32 = _mma_of_floats("mma_m16n8k8_tf32", 32, "tfloat32")
MMA_M16N8K32_FP8 = _mma_of_floats("mma_m16n8k32_fp8", 8, *FLOAT8)

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


def _wgmma_of_floats(name: str, k: int, immediates: str, *types: str) -> WarpgroupInstruction:
    """Return a wgmma of floats with 32 bytes of each row, from the tables of the same chapter."""
    return WarpgroupInstruction(
        name=name,
        m=64,
        k=k,
        widths=tuple(range(8, 257, 8)),
        lanes=128,
        a_types=types,
        b_types=types,
        sum_type=REAL_SUMS,
        matrix_rows=8,
        matrix_bytes=16,
        mnemonic=f"wgmma.mma_async.sync.aligned.m64n{{n}}k{k}.f32.{{a}}.{{b}}",
        immediates=immediates,
        lost_bits=LOST_BITS_OF_FLOAT8 if types == FLOAT8 else 0,
    )


# 16-bit operands may be transposed, others are K-major always.
WGMMA_OF_FLOATS = (
    _wgmma_of_floats("wgmma_m64k16_f16", 16, ", 1, 1, 0, 0", "float16"),
    _wgmma_of_floats("wgmma_m64k16_bf16", 16, ", 1, 1, 0, 0", "bfloat16"),
    _wgmma_of_floats("wgmma_m64k8_tf32", 8, ", 1, 1", "tfloat32"),
    _wgmma_of_floats("wgmma_m64k32_fp8", 32, ", 1, 1", *FLOAT8),
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


def _mfma_of_floats(
    shape: str, mn: int, k: int, clocks: int, types: tuple[str, ...], operand: str, bits: int = 16
) -> MatrixInstruction:
    """Return an MFMA of floats. Lanes hold as many consecutive k as in `_mfma`, and the same sums."""
    groups = 64 // mn
    of_bytes = _mfma(shape, mn, k, clocks)
    return replace(
        of_bytes,
        name=f"mfma_f32_{shape}",
        a_types=types,
        b_types=types,
        sum_type=REAL_SUMS,
        a=replace(of_bytes.a, element=(Dim(k // groups, "k", 1),), element_bits=bits),
        b=replace(of_bytes.b, element=(Dim(k // groups, "k", 1),), element_bits=bits),
        mnemonic=f"__builtin_amdgcn_mfma_f32_{shape}",
        operand=operand,
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

# Floats, from the same tables. gfx908's bf16 has another layout and is left out, as are the 8-bit floats of gfx942,
# whose bias is not OCP's.
_HALF, _BFLOAT = ("float16",), ("bfloat16",)
MFMA_OF_HALVES = (
    _mfma_of_floats("32x32x8f16", 32, 8, 64, _HALF, "_Float16"),
    _mfma_of_floats("16x16x16f16", 16, 16, 32, _HALF, "_Float16"),
)
MFMA_OF_BFLOATS = (
    _mfma_of_floats("32x32x8bf16_1k", 32, 8, 64, _BFLOAT, "short"),
    _mfma_of_floats("16x16x16bf16_1k", 16, 16, 32, _BFLOAT, "short"),
)
# gfx942 takes half the clocks.
MFMA_OF_FLOATS_3 = tuple(replace(each, clocks=each.clocks // 2) for each in (*MFMA_OF_HALVES, *MFMA_OF_BFLOATS))
MFMA_OF_FLOATS_4 = (
    _mfma_of_floats("32x32x16_f16", 32, 16, 32, _HALF, "_Float16"),
    _mfma_of_floats("16x16x32_f16", 16, 32, 16, _HALF, "_Float16"),
    _mfma_of_floats("32x32x16_bf16", 32, 16, 32, _BFLOAT, "__bf16"),
    _mfma_of_floats("16x16x32_bf16", 16, 32, 16, _BFLOAT, "__bf16"),
    *(
        _mfma_of_floats(f"{shape}_{name}_{name}", mn, k, clocks, (dtype,), "", 8)
        for name, dtype in (("fp8", "float8_e4m3fn"), ("bf8", "float8_e5m2"))
        for shape, mn, k, clocks in (("32x32x16", 32, 16, 32), ("16x16x32", 16, 32, 16))
    ),
)

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


def _wmma_gfx12_of_floats(types: str, dtype: str, bits: int, operand: str) -> MatrixInstruction:
    """Return a WMMA of floats of RDNA 4: the halves of the wave split k as they do for bytes, with the same sums."""
    eight = (Dim(8, "k", 1),)
    return replace(
        WMMA_GFX12,
        name=f"wmma_f32_16x16x16_{types}_gfx12",
        a_types=(dtype,),
        b_types=(dtype,),
        sum_type=REAL_SUMS,
        a=replace(WMMA_GFX12.a, element=eight, element_bits=bits),
        b=replace(WMMA_GFX12.b, element=eight, element_bits=bits),
        mnemonic=f"__builtin_amdgcn_wmma_f32_16x16x16_{types}_w32_gfx12",
        clocks=8 if bits == 8 else 16,
        operand=operand,
    )


WMMA_GFX12_OF_FLOATS = (
    _wmma_gfx12_of_floats("f16", "float16", 16, "_Float16"),
    _wmma_gfx12_of_floats("bf16", "bfloat16", 16, "short"),
    _wmma_gfx12_of_floats("fp8_fp8", "float8_e4m3fn", 8, "int"),
    _wmma_gfx12_of_floats("bf8_bf8", "float8_e5m2", 8, "int"),
)
