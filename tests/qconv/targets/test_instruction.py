"""Every matrix instruction, executed in NumPy from its fragments, with its layout compared with the manuals.

The execution cannot detect a permutation of k that A and B share; the formulas, written from the manuals, can.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from fragments import BY_NAME, INSTRUCTIONS, gather, places, scatter, whole

from qconv.targets.instruction import Dim, Fragment, MatrixInstruction
from qconv.targets.instruction_tables import WGMMA_M64K32, WGMMA_OF_FLOATS

TYPED = [
    pytest.param(instruction, a_type, b_type, id=f"{instruction.name}-{a_type}-{b_type}")
    for instruction in INSTRUCTIONS
    for a_type in instruction.a_types
    for b_type in instruction.b_types
]


@pytest.mark.parametrize(("instruction", "a_type", "b_type"), TYPED)
def test_executing_the_fragments_multiplies_matrices(instruction: MatrixInstruction, a_type: str, b_type: str) -> None:
    rng = np.random.default_rng(0)
    a, b = whole(rng, a_type, (instruction.m, instruction.k)), whole(rng, b_type, (instruction.k, instruction.n))

    a_registers, b_registers = scatter(a, instruction.a), scatter(b, instruction.b)
    assert a_registers.shape == (instruction.lanes, instruction.a.registers)
    assert b_registers.shape == (instruction.lanes, instruction.b.registers)
    product = gather(a_registers, instruction.a, a.dtype) @ gather(b_registers, instruction.b, b.dtype)
    d_registers = scatter(product.astype(instruction.sum_type), instruction.d)
    assert d_registers.shape == (instruction.lanes, instruction.d.registers)

    expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(gather(d_registers, instruction.d, np.dtype(instruction.sum_type)), expected)


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda instruction: instruction.name)
def test_each_element_is_held_as_often_as_the_fragment_says(instruction: MatrixInstruction) -> None:
    for fragment in (instruction.a, instruction.b, instruction.d):
        held = Counter(itertools.chain.from_iterable(places(fragment)))
        rows, columns = fragment.shape
        assert held == {(i, j): fragment.replication for i in range(rows) for j in range(columns)}


def test_only_gfx11_holds_copies() -> None:
    copied = [instruction.name for instruction in INSTRUCTIONS if instruction.a.replication == 2]
    assert copied == ["wmma_i32_16x16x16_iu8_gfx11"]


# PTX ISA manual: group is %laneid >> 2, thread is %laneid % 4, i the index of the element.
PTX: dict[tuple[str, str], Callable[[int, int], tuple[int, int]]] = {
    ("mma_m8n8k16", "a"): lambda lane, i: (lane >> 2, (lane % 4) * 4 + i),
    ("mma_m8n8k16", "b"): lambda lane, i: ((lane % 4) * 4 + i, lane >> 2),
    ("mma_m8n8k16", "d"): lambda lane, i: (lane >> 2, (lane % 4) * 2 + i),
    ("mma_m16n8k32", "a"): lambda lane, i: (
        (lane >> 2) if 0 <= i < 4 or 8 <= i < 12 else (lane >> 2) + 8,
        (lane % 4) * 4 + (i & 3) + (16 if i >= 8 else 0),
    ),
    ("mma_m16n8k32", "b"): lambda lane, i: ((lane % 4) * 4 + (i & 3) + (16 if i >= 4 else 0), lane >> 2),
    ("mma_m16n8k32", "d"): lambda lane, i: ((lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)),
    ("mma_m16n8k16_f16", "a"): lambda lane, i: (
        (lane >> 2) if 0 <= i < 2 or 4 <= i < 6 else (lane >> 2) + 8,
        (lane % 4) * 2 + (i & 1) + (8 if i >= 4 else 0),
    ),
    ("mma_m16n8k16_f16", "b"): lambda lane, i: ((lane % 4) * 2 + (i & 1) + (8 if i >= 2 else 0), lane >> 2),
    ("mma_m16n8k16_f16", "d"): lambda lane, i: ((lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)),
}

# AMD's matrix instruction calculator, "Register to matrix element mapping". In A and B, GPR_num is i // 4 and
# the byte is i % 4; in C and D, GPR_num is i. For gfx950's own: IREE's thread and element counts.
AMD: dict[tuple[str, str], Callable[[int, int], tuple[int, int]]] = {
    ("mfma_i32_32x32x8i8", "a"): lambda lane, i: (lane % 32, 4 * (lane // 32) + i % 4),
    ("mfma_i32_32x32x8i8", "b"): lambda lane, i: (4 * (lane // 32) + i % 4, lane % 32),
    ("mfma_i32_32x32x8i8", "d"): lambda lane, i: ((8 * (i // 4) % 32) + 4 * (lane // 32) + i % 4, lane % 32),
    ("mfma_i32_16x16x16i8", "a"): lambda lane, i: (lane % 16, 4 * (lane // 16) + i % 4),
    ("mfma_i32_16x16x16i8", "b"): lambda lane, i: (4 * (lane // 16) + i % 4, lane % 16),
    ("mfma_i32_16x16x16i8", "d"): lambda lane, i: (4 * (lane // 16) + i % 4, lane % 16),
    ("mfma_i32_32x32x16_i8", "a"): lambda lane, i: (lane % 32, 8 * (lane // 32) + 4 * (i // 4) + i % 4),
    ("mfma_i32_32x32x16_i8", "b"): lambda lane, i: (8 * (lane // 32) + 4 * (i // 4) + i % 4, lane % 32),
    ("mfma_i32_32x32x16_i8", "d"): lambda lane, i: (
        (8 * (i // 4) % 32) + 4 * (lane // 32) + i % 4,
        lane % 32,
    ),
    ("mfma_i32_16x16x32_i8", "a"): lambda lane, i: (lane % 16, 8 * (lane // 16) + 4 * (i // 4) + i % 4),
    ("mfma_i32_16x16x32_i8", "b"): lambda lane, i: (8 * (lane // 16) + 4 * (i // 4) + i % 4, lane % 16),
    ("mfma_i32_16x16x32_i8", "d"): lambda lane, i: (4 * (lane // 16) + i % 4, lane % 16),
    ("mfma_i32_32x32x32_i8", "a"): lambda lane, i: (lane % 32, 16 * (lane // 32) + i),
    ("mfma_i32_32x32x32_i8", "b"): lambda lane, i: (16 * (lane // 32) + i, lane % 32),
    ("mfma_i32_32x32x32_i8", "d"): lambda lane, i: (8 * (i // 4) + 4 * (lane // 32) + i % 4, lane % 32),
    ("mfma_i32_16x16x64_i8", "a"): lambda lane, i: (lane % 16, 16 * (lane // 16) + i),
    ("mfma_i32_16x16x64_i8", "b"): lambda lane, i: (16 * (lane // 16) + i, lane % 16),
    ("mfma_i32_16x16x64_i8", "d"): lambda lane, i: (4 * (lane // 16) + i, lane % 16),
    ("wmma_i32_16x16x16_iu8_gfx11", "a"): lambda lane, i: (lane % 16, 4 * (i // 4) + i % 4),
    ("wmma_i32_16x16x16_iu8_gfx11", "b"): lambda lane, i: (4 * (i // 4) + i % 4, lane % 16),
    ("wmma_i32_16x16x16_iu8_gfx11", "d"): lambda lane, i: (2 * i + lane // 16, lane % 16),
    ("wmma_i32_16x16x16_iu8_gfx12", "a"): lambda lane, i: (
        lane % 16,
        8 * (lane // 16) + 4 * (i // 4) + i % 4,
    ),
    ("wmma_i32_16x16x16_iu8_gfx12", "b"): lambda lane, i: (
        8 * (lane // 16) + 4 * (i // 4) + i % 4,
        lane % 16,
    ),
    ("wmma_i32_16x16x16_iu8_gfx12", "d"): lambda lane, i: (8 * (lane // 16) + i, lane % 16),
}
Formula = Callable[[int, int], tuple[int, int]]


def of_mfma(mn: int, run: int) -> dict[str, Formula]:
    """The calculator's formulas for an MFMA of one block: a lane holds `run` neighbours along k."""
    rows = 8 if mn == 32 else 4
    return {
        "a": lambda lane, i: (lane % mn, run * (lane // mn) + i),
        "b": lambda lane, i: (run * (lane // mn) + i, lane % mn),
        "d": lambda lane, i: (rows * (i // 4) % mn + 4 * (lane // mn) + i % 4, lane % mn),
    }


# The same source, for floats: "mfma_f32_32x32x8f16" and so on, and IREE's counts for gfx950's own.
OF_FLOATS: dict[str, dict[str, Formula]] = {
    "mma_m16n8k16_bf16": {operand: PTX["mma_m16n8k16_f16", operand] for operand in "abd"},
    "mma_m16n8k8_tf32": {
        "a": lambda lane, i: ((lane >> 2) + (8 if i % 2 else 0), lane % 4 + (4 if i >= 2 else 0)),
        "b": lambda lane, i: (lane % 4 + (4 if i >= 1 else 0), lane >> 2),
        "d": PTX["mma_m16n8k16_f16", "d"],
    },
    "mma_m16n8k32_fp8": {operand: PTX["mma_m16n8k32", operand] for operand in "abd"},
    **dict.fromkeys(("mfma_f32_32x32x8f16", "mfma_f32_32x32x8bf16_1k"), of_mfma(32, 4)),
    **dict.fromkeys(("mfma_f32_16x16x16f16", "mfma_f32_16x16x16bf16_1k"), of_mfma(16, 4)),
    **{f"mfma_f32_32x32x16_{types}": of_mfma(32, 8) for types in ("f16", "bf16", "fp8_fp8", "bf8_bf8")},
    **{f"mfma_f32_16x16x32_{types}": of_mfma(16, 8) for types in ("f16", "bf16", "fp8_fp8", "bf8_bf8")},
    **{
        f"wmma_f32_16x16x16_{types}_gfx12": {
            "a": lambda lane, i: (lane % 16, 8 * (lane // 16) + i),
            "b": lambda lane, i: (8 * (lane // 16) + i, lane % 16),
            "d": lambda lane, i: (8 * (lane // 16) + i, lane % 16),
        }
        for types in ("f16", "bf16", "fp8_fp8", "bf8_bf8")
    },
}
FORMULAS = PTX | AMD | {(name, each): formula for name, three in OF_FLOATS.items() for each, formula in three.items()}


@pytest.mark.parametrize(("name", "operand"), FORMULAS, ids=lambda part: part)
def test_layout_is_the_published_one(name: str, operand: str) -> None:
    fragment: Fragment = getattr(BY_NAME[name], operand)
    formula = FORMULAS[name, operand]
    assert places(fragment) == [[formula(lane, i) for i in range(fragment.elements)] for lane in range(fragment.lanes)]


@pytest.mark.parametrize("n", WGMMA_M64K32.widths)
def test_sums_of_a_warpgroup_lie_as_published(n: int) -> None:
    """PTX ISA manual, "D of wgmma m64nN": the warp is %warpid % 4, the lane that in its warp."""
    assert places(WGMMA_M64K32.d(n)) == [
        [
            (16 * (lane // 32) + lane % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2)
            for i in range(n // 2)
        ]
        for lane in range(128)
    ]


def test_a_warpgroups_instruction_is_refused_what_it_has_not() -> None:
    assert WGMMA_M64K32.spell(24, "uint8", "int8") == "wgmma.mma_async.sync.aligned.m64n24k32.s32.u8.s8"
    for n, b_type in ((40, "int8"), (24, "int32")):
        with pytest.raises(ValueError, match=rf"wgmma_m64k32: n={n} of uint8 x {b_type}"):
            WGMMA_M64K32.spell(n, "uint8", b_type)
    with pytest.raises(ValueError, match=r"n=40: it has 8, 16, 24, 32, 48, .*256; use one"):
        WGMMA_M64K32.d(40)
    with pytest.raises(ValueError, match="k=24: factors are whole matrices; give a multiple of 16"):
        replace(WGMMA_M64K32, k=24)


def test_every_fragment_has_a_published_formula() -> None:
    assert set(FORMULAS) == {(name, operand) for name in BY_NAME for operand in "abd"}


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("mma_m8n8k16", (1, 1, 2)),
        ("mma_m16n8k32", (4, 2, 4)),
        ("mma_m16n8k16_f16", (4, 2, 4)),
        ("mma_m16n8k32_fp8", (4, 2, 4)),
        ("mfma_f32_32x32x8f16", (2, 2, 16)),
        ("mfma_f32_16x16x32_bf16", (4, 4, 4)),
        ("wmma_f32_16x16x16_f16_gfx12", (4, 4, 8)),
        ("mfma_i32_32x32x8i8", (1, 1, 16)),
        ("mfma_i32_16x16x16i8", (1, 1, 4)),
        ("mfma_i32_32x32x16_i8", (2, 2, 16)),
        ("mfma_i32_16x16x32_i8", (2, 2, 4)),
        ("mfma_i32_32x32x32_i8", (4, 4, 16)),
        ("mfma_i32_16x16x64_i8", (4, 4, 4)),
        ("wmma_i32_16x16x16_iu8_gfx11", (4, 4, 8)),
        ("wmma_i32_16x16x16_iu8_gfx12", (2, 2, 8)),
    ],
)
def test_registers_per_lane(name: str, registers: tuple[int, int, int]) -> None:
    instruction = BY_NAME[name]
    assert (instruction.a.registers, instruction.b.registers, instruction.d.registers) == registers


def test_ptx_spells_the_types() -> None:
    instruction = BY_NAME["mma_m16n8k32"]
    assert instruction.spell("uint8", "int8") == "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"
    assert BY_NAME["mfma_i32_16x16x16i8"].spell("int8", "int8") == "__builtin_amdgcn_mfma_i32_16x16x16i8"


def test_mfma_takes_signed_types_only() -> None:
    instruction = BY_NAME["mfma_i32_32x32x16_i8"]
    assert not instruction.accepts("uint8", "int8")
    with pytest.raises(ValueError, match=r"mfma_i32_32x32x16_i8: uint8 x int8: it takes int8 by int8; use"):
        instruction.spell("uint8", "int8")


def test_dimensions_are_accepted_exactly_when_they_cover_the_axis_once() -> None:
    """The rule that a fragment checks, compared with brute force."""
    accepted = 0
    for sizes in itertools.product((2, 3, 4), repeat=3):
        for strides in itertools.product((1, 2, 3, 4, 6, 8, 9, 12, 16), repeat=3):
            k = tuple(Dim(size, "k", stride) for size, stride in zip(sizes, strides, strict=True))
            reached = sorted(
                sum(count * stride for count, stride in zip(counts, strides, strict=True))
                for counts in itertools.product(*(range(size) for size in sizes))
            )
            covers = reached == list(range(len(reached)))
            try:
                Fragment("m", "k", lane=(Dim(8, "m", 1), *k), element=(), element_bits=32)
            except ValueError:
                assert not covers, k
            else:
                assert covers, k
                accepted += 1
    assert accepted == 162  # every choice of sizes, its dimensions in any of six orders


K, M = Dim(4, "k", 1), Dim(8, "m", 1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Dim(1, "k", 1), "dimension size 1 along 'k'.*leave it out"),
        (lambda: Dim(2, cast(Any, "row"), 1), "dimension axis 'row'"),
        (lambda: Dim(2, "copy", 1), "copy dimension with stride 1.*give stride 0"),
        (lambda: Dim(2, "k", 0), "dimension stride 0 along 'k'.*give 1 or more"),
        (
            lambda: Fragment("m", "k", (M, Dim(4, "k", 8)), (K,)),
            "coordinate 4 is never held; give stride 4",
        ),
        (lambda: Fragment("m", "k", (M, Dim(4, "k", 2)), (K,)), "coordinate 2 is held more than once"),
        (lambda: Fragment("m", "k", (M,), (Dim(4, "k", 2),)), "coordinate 1 is never held; give stride 1"),
        (lambda: Fragment("m", "k", (M, Dim(4, "n", 1)), (K,)), "dimension along 'n' in a m x k tile"),
        (
            lambda: Fragment("m", "k", (M,), (Dim(2, "k", 1),)),
            "2 elements of 8 bits per lane.*multiple of 4",
        ),
        (lambda: Fragment("m", "k", (M, Dim(4, "copy", 0)), (K,)), "replication 4"),
        (lambda: Fragment("m", "k", (M,), (K, Dim(2, "copy", 0))), "copy dimension among the elements"),
        (lambda: Fragment("m", "k", (M,), (K,), element_bits=4), "4-bit elements.*give 8, 16 or 32"),
    ],
)
def test_a_broken_fragment_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


MMA, WMMA11 = BY_NAME["mma_m16n8k32"], BY_NAME["wmma_i32_16x16x16_iu8_gfx11"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 32}, r"the fragment of A is 16 x 32: m x k is 32 x 32; correct its dimensions"),
        ({"n": 16}, r"the fragment of B is 32 x 8: k x n is 32 x 16"),
        ({"a": MMA.d}, "A is a m x n tile: A is m x k"),
        ({"b": WMMA11.b}, "the fragment of B is 16 x 16"),
        ({"lanes": 64}, "A is spread over 32 lanes: the instruction has 64"),
        ({"lanes": 16}, "16 lanes: a warp has 32 or 64"),
        ({"d": replace(MMA.d, element_bits=8)}, "D has 8-bit elements: 32 are needed"),
        ({"sum_type": "int33"}, "sum_type='int33': no element type"),
        ({"sum_type": "float64"}, "D has 32-bit elements: 64 are needed"),
        ({"b_types": ("int8", "int16")}, r"operands of \[8, 16\] bits: all have one size"),
        ({"a_types": ()}, "types .* for A"),
        ({"b_types": ("int4",)}, r"types \('int4',\) for B"),
        ({"mnemonic": ""}, "both are needed"),
    ],
)
def test_an_inconsistent_instruction_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(MMA, **change)


def test_copies_of_the_sum_are_refused() -> None:
    d = Fragment("m", "n", (Dim(16, "n", 1), Dim(2, "copy", 0)), (Dim(16, "m", 1),), element_bits=32)
    with pytest.raises(ValueError, match="2 copies of D"):
        replace(WMMA11, d=d)


@pytest.mark.parametrize(("lane", "element"), [(-1, 0), (32, 0), (0, -1), (0, 16)])
def test_coordinates_outside_the_fragment_are_refused(lane: int, element: int) -> None:
    with pytest.raises(ValueError, match=r"^(lane (-1|32)|element (-1|16)): "):
        MMA.a.coordinates(lane, element)


def test_a_factor_in_registers_is_never_transposed() -> None:
    """PTX has an operand for it where both factors are in shared memory, and of 16 bits."""
    of_registers = {each.name: each.immediates_of_registers for each in WGMMA_OF_FLOATS}
    assert of_registers == {
        "wgmma_m64k16_f16": ", 1, 1, 0",
        "wgmma_m64k16_bf16": ", 1, 1, 0",
        "wgmma_m64k8_tf32": ", 1, 1",
        "wgmma_m64k32_fp8": ", 1, 1",
    }
    assert WGMMA_M64K32.immediates_of_registers == ""
