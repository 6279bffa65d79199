"""The CPU device executes every matrix instruction in its documented layout, and no other layout gives its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from cpu_kernels import Runner, sanitized, unpack
from fragments import BY_NAME, INSTRUCTIONS, places, scatter, whole
from matrix_kernels import Array, multiply_kernel, registers, with_prelude

from qconv.device import cpu_runtime
from qconv.device.cpu import runtime_cache
from qconv.errors import LaunchError
from qconv.targets.instruction import Fragment, MatrixInstruction

TYPED = [
    (instruction, a_type, b_type)
    for instruction in INSTRUCTIONS
    for a_type in instruction.a_types
    for b_type in instruction.b_types
]


def kernel_name(instruction: MatrixInstruction, a_type: str, b_type: str) -> str:
    return f"{instruction.name}_{a_type}_{b_type}"


@pytest.fixture(scope="module")
def cache() -> Path:
    return runtime_cache()


@pytest.fixture(scope="module")
def runners(cache: Path) -> dict[int, Runner]:
    """Return a runner per number of lanes in a warp, with all the instructions of that size."""
    found = {}
    for lanes in (32, 64):
        cases = [case for case in TYPED if case[0].lanes == lanes]
        kernels = [multiply_kernel(kernel_name(*case), *case) for case in cases]
        found[lanes] = Runner(cache, with_prelude("".join(kernels), WARP_SIZE=lanes))
    return found


def draw(instruction: MatrixInstruction, a_type: str, b_type: str, seed: int) -> list[Array]:
    """Draw A, B and the initial sums from the full range of their types."""
    rng = np.random.default_rng(seed)
    m, n, k = instruction.m, instruction.n, instruction.k
    return [whole(rng, a_type, (m, k)), whole(rng, b_type, (k, n)), whole(rng, instruction.sum_type, (m, n))]


def expected(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.int64) @ b.astype(np.int64) + c.astype(np.int64)).astype(c.dtype)  # integers wrap


@pytest.mark.turns
@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize(("instruction", "a_type", "b_type"), TYPED, ids=[kernel_name(*case) for case in TYPED])
def test_two_warps_multiply(
    runners: dict[int, Runner], instruction: MatrixInstruction, a_type: str, b_type: str, seed: int
) -> None:
    fragments = (instruction.a, instruction.b, instruction.d)
    tiles = [draw(instruction, a_type, b_type, warp) for warp in range(2)]
    result = runners[instruction.lanes](
        kernel_name(instruction, a_type, b_type),
        [word for warp in tiles for word in registers(warp, fragments)],
        2 * instruction.lanes * instruction.d.registers,
        0,
        threads=2 * instruction.lanes,
        warp_size=instruction.lanes,
        seed=seed,
    )
    assert result == [word for warp in tiles for word in scatter(expected(*warp), instruction.d).view("i4").ravel()]


def alterations(fragment: Fragment) -> Iterator[Fragment]:
    """Yield the fragment with two of its dimensions exchanged, if that is a layout and moves an element."""
    dims, lanes = (*fragment.lane, *fragment.element), len(fragment.lane)
    for first, second in combinations(range(len(dims)), 2):
        across = first < lanes <= second
        if across and (dims[first].size != dims[second].size or dims[first].axis == "copy"):
            continue
        exchanged = list(dims)
        exchanged[first], exchanged[second] = dims[second], dims[first]
        altered = replace(fragment, lane=tuple(exchanged[:lanes]), element=tuple(exchanged[lanes:]))
        if places(altered) != places(fragment):
            yield altered


ALTERED = [
    (instruction, operand, altered)
    for instruction in INSTRUCTIONS
    for operand in "abd"
    for altered in alterations(getattr(instruction, operand))
]


@pytest.mark.parametrize(
    ("instruction", "operand", "altered"), ALTERED, ids=[f"{case[0].name}-{case[1]}" for case in ALTERED]
)
def test_a_wrong_layout_shows(
    runners: dict[int, Runner], instruction: MatrixInstruction, operand: str, altered: Fragment
) -> None:
    """The operand is in a layout that differs in two dimensions; its type and shape are right."""
    types = instruction.a_types[0], instruction.b_types[0]
    tiles = draw(instruction, *types, seed=3)
    words = registers(tiles, [altered if name == operand else getattr(instruction, name) for name in "abd"])
    name, sums = kernel_name(instruction, *types), instruction.lanes * instruction.d.registers

    def multiplied() -> list[int]:
        run = runners[instruction.lanes]
        return run(name, words, sums, 0, threads=instruction.lanes, warp_size=instruction.lanes)

    original = getattr(instruction, operand)
    if [dim.axis == "copy" for dim in altered.lane] != [dim.axis == "copy" for dim in original.lane]:
        with pytest.raises(LaunchError, match="two lanes that hold copies of an operand differ"):
            multiplied()
    else:
        assert multiplied() != list(scatter(expected(*tiles), instruction.d).view("i4").ravel())


def test_every_operand_was_altered() -> None:
    assert {(instruction.name, operand) for instruction, operand, _ in ALTERED} == set(product(BY_NAME, "abd"))


def test_copies_that_differ_are_reported(runners: dict[int, Runner]) -> None:
    instruction = BY_NAME["wmma_i32_16x16x16_iu8_gfx11"]
    words = registers(draw(instruction, "int8", "int8", 0), (instruction.a, instruction.b, instruction.d))
    words[16 * 16 + 5] ^= 1  # lane 16, second word of B: lane 0 has the same
    with pytest.raises(LaunchError, match=r"line \d+, thread \d+ of block \(0,0,0\): two lanes.* differ"):
        runners[32](kernel_name(instruction, "int8", "int8"), words, 32 * 8, 0, threads=32)


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", ["mma_m16n8k32", "mfma_i32_32x32x16_i8", "wmma_i32_16x16x16_iu8_gfx11"])
def test_the_sanitizers_find_nothing(cache: Path, name: str, sanitizer: cpu_runtime.Sanitizer) -> None:
    instruction = BY_NAME[name]
    tiles = draw(instruction, "int8", "int8", 0)
    report = sanitized(
        cache,
        "multiply",
        with_prelude(multiply_kernel("multiply", instruction, "int8", "int8"), WARP_SIZE=instruction.lanes),
        sanitizer,
        registers(tiles, (instruction.a, instruction.b, instruction.d)),
        instruction.lanes * instruction.d.registers,
        0,
        threads=instruction.lanes,
        warp_size=instruction.lanes,
    )
    assert (report.kind, report.text) == ("clean", "")
    assert unpack(report.outputs[0]) == list(scatter(expected(*tiles), instruction.d).view("i4").ravel())
