"""Random problems through the matrix instructions of the first GPU, compared with the oracle bit for bit.

Under compute-sanitizer, which also detects errors without wrong results, a few launches suffice:

    compute-sanitizer --tool racecheck python -m pytest tests/templates/test_mma_random_gpu.py -k sanitizer
"""

from __future__ import annotations

from typing import Any

import pytest
from exactness import POISON, assert_same, check, expected
from random_matrix import SWIZZLED, matrix_plan, matrix_problems
from wanted_matrix import asked_of_gpu

from qconv import Conv2d, Quantization
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.instances.load.pair import load
from qconv.ops import registry
from tests.templates.test_mma_random import GPU_COUNT, GPU_SEED

COUNT, CHUNK, SEED = GPU_COUNT, 10, GPU_SEED
EVERYTHING = Quantization("int8", "int8", "uint8", True, True, True, True, "int32", "relu6")
# Enough tiles for persistent blocks on every GPU, and numbers of tiles with an unfilled last wave.
MANY = Conv2d(4, 64, 64, 64, 160, 3, 3, pad=1, quantization=EVERYTHING)

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _matrices(request: pytest.FixtureRequest) -> None:
    gpu: Device = request.getfixturevalue("gpu")
    if not gpu.target.instructions:
        pytest.skip(f"{gpu.target.name} has no matrix instructions")


def two_plans(gpu: Device, first: int, count: int) -> list[tuple[int, Plan]]:
    """Return two plans. The first is the requested one, if any: `test_mma_random` checks that none is missing."""
    made, _ = asked_of_gpu(gpu.target, SEED, COUNT)
    chosen = list(enumerate(matrix_problems(SEED, COUNT, gpu.target)))[first : first + count]
    return [
        (index, (not turn and made.get((gpu.target.name, index))) or matrix_plan(problem, gpu.target, (index, turn)))
        for index, problem in chosen
        for turn in range(2)
    ]


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_two_random_configs(first: int, gpu: Device) -> None:
    for index, plan in two_plans(gpu, first, CHUNK):
        check(plan, gpu, seed=index)


def test_the_many_have_every_role_and_width(gpu: Device) -> None:
    """`test_many_tiles` covers schedules that need many tiles."""
    _, missing = asked_of_gpu(gpu.target, SEED, COUNT)
    assert not missing, f"{missing}: no config of {COUNT} problems on {gpu.target.name} has them"


# Choices that need many tiles or large weights, and each way of combining a tile's parts.
LARGER: dict[str, dict[str, int]] = {
    "swizzled": {"tile_swizzle_width": 8},
    "persist": {"persist": 1, "stream_k": 0},
    "persist, two blocks, staged": {"persist": 2, "stream_k": 0, "staged": 1},
    "stream": {"persist": 1, "stream_k": 1},
    "stream, two blocks": {"persist": 2, "stream_k": 1},
    "the last wave, split": {"split_last_wave": 1, "split": 2},
    "the last wave, split in four": {"split_last_wave": 2, "split": 4},
}


def larger(gpu: Device, problem: Conv2d, name: str, seed: int) -> Plan:
    try:
        return matrix_plan(problem, gpu.target, seed, **LARGER[name])
    except Infeasible as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", LARGER)
def test_many_tiles(name: str, seed: int, gpu: Device) -> None:
    check(larger(gpu, SWIZZLED if name == "swizzled" else MANY, name, seed), gpu, seed)


@pytest.mark.parametrize("seed", range(8))
def test_overlapping_launches(seed: int, gpu: Device) -> None:
    """Each launch begins while the previous one ends, with its scratch and outputs."""
    problem = matrix_problems(SEED + 1, 8, gpu.target)[seed]
    plan = matrix_plan(problem, gpu.target, seed)
    if not plan.overlaps:
        pytest.skip(f"no kernel overlaps on {gpu.target.name}")
    drawn = registry.draw(problem, seed)
    instance = load(plan, gpu)
    arrays: list[Any] = [gpu.upload(array) for array in drawn.arrays]
    bounds = [instance.bind(*arrays, overlap=True, **drawn.parameters) for _ in range(2)]
    for bound in bounds:
        gpu.fill(bound.y, POISON)
    gpu.synchronize()
    for turn in range(20):
        bounds[turn % 2]()
    gpu.synchronize()
    for bound in bounds:
        assert_same(gpu.download(bound.y), expected(problem, drawn), f"{plan.config}, {problem}")


# Small, because compute-sanitizer takes a hundred times as long: one tile per block, parts of a tile, persistent
# blocks.
SMALL = Conv2d(1, 40, 40, 64, 48, 3, 3, pad=1, quantization=Quantization("int8", "int8", per_channel=True))
SANITIZED: dict[str, dict[str, int]] = {
    "tile": {"split": 1, "persist": 0, "staged": 1},
    "parts of a tile": {"split": 4, "persist": 0},
    "stream": {"persist": 1, "stream_k": 1},
}


@pytest.mark.parametrize("name", SANITIZED)
def test_one_of_each_for_the_sanitizer(name: str, gpu: Device) -> None:
    """Every array has its own allocation, so that its neighbours are invalid."""
    cupy = pytest.importorskip("cupy")
    plan = matrix_plan(SMALL, gpu.target, name, **SANITIZED[name])
    with cupy.cuda.using_allocator(None):
        check(plan, gpu, seed=1)
