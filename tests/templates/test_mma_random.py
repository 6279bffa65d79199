"""Random problems through the matrix instructions of every architecture, executed on the CPU device: tolerance 0."""

from __future__ import annotations

from collections import Counter

import pytest
from exactness import check_all
from mostly_slow import mostly_slow
from random_matrix import EMULATIONS, RAGGED, SWIZZLED, asked_plan, matrix_plan, matrix_problems, served
from random_problems import problems
from wanted import Wanted
from wanted_matrix import Feature, Place, asked, asked_of_gpu, wanted

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.mma.config import CHOICES
from qconv.generator.families.mma.plan import MmaPlan
from qconv.targets.target import TARGETS, Target

FAST = 10
# 300 per family of instructions: mma, MFMA and WMMA.
LONG = {
    **dict.fromkeys(("cpu.sm_75", "cpu.sm_80", "cpu.gfx1100", "cpu.gfx1201"), 150),
    **dict.fromkeys(("cpu.gfx908", "cpu.gfx942", "cpu.gfx950"), 100),
}
FAST_SEED, LONG_SEED = 1, 2
CHUNK = 10
GPU_SEED, GPU_COUNT = 3, 300  # seed and count of test_mma_random_gpu


def plans(name: str, seed: int, count: int, first: int, chunk: int) -> list[Plan]:
    """Return the requested plans, and random others."""
    target, (made, _) = TARGETS[name], asked_plans(name, seed, count)
    chosen = list(enumerate(matrix_problems(seed, count, target)))[first : first + chunk]
    return [made.get((name, index)) or matrix_plan(problem, target, index) for index, problem in chosen]


def asked_plans(name: str, seed: int, count: int) -> tuple[dict[Place, Plan], list[str]]:
    """Return the requested plans: of the few together, of the many on each architecture."""
    if count == FAST:
        return asked(tuple(EMULATIONS), seed, count, of_the_few())
    return asked((name,), seed, count, frozenset(wanted(TARGETS[name])))


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, FAST, CHUNK))
@pytest.mark.parametrize("name", mostly_slow(EMULATIONS, {"cpu.sm_75", "cpu.sm_80", "cpu.gfx942", "cpu.gfx1100"}))
def test_a_random_config(name: str, first: int) -> None:
    check_all(plans(name, FAST_SEED, FAST, first, CHUNK), first)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [(n, first) for n in EMULATIONS for first in range(0, LONG[n], CHUNK)])
def test_many_random_configs(name: str, first: int) -> None:
    check_all(plans(name, LONG_SEED, LONG[name], first, CHUNK), first)


def has_a_narrow_strip(plan: Plan) -> bool:
    assert isinstance(plan, MmaPlan)
    return plan.shape.tiles_m % plan.config.tile_swizzle_width != 0


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(EMULATIONS, {"cpu.sm_80"}))
def test_the_last_strip_of_tiles_is_narrow(name: str) -> None:
    asks = {"tile_swizzle_width": (8,), "tile_m": (32,), "tile_n": (32, 64)}  # enough tiles for a tile swizzle
    narrow = Wanted(has_a_narrow_strip, asks)
    check_all([asked_plan(RAGGED, TARGETS[name], 0, narrow)], 0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", EMULATIONS)
def test_swizzled_tiles(name: str) -> None:
    check_all([matrix_plan(SWIZZLED, TARGETS[name], 0, tile_swizzle_width=8)], 1)


def of_the_few() -> frozenset[Feature]:
    """All architectures together have the features that the long tests have on each of them."""
    of = {feature for name in EMULATIONS for feature in wanted(TARGETS[name]) if feature[0] not in CHOICES}
    of |= {("role loader", loader) for loader in ("registers", "buffers", "async")}
    of |= {("types of mfma", ("int8", "int8"))}
    of |= {("role prefetch_fragments", False), ("role prefetch_fragments", True)}
    for atom in ("mma_m8n8k16", "mma_m16n8k32", "wmma_gfx11", "wmma_gfx12"):
        of |= {(f"types of {atom}", (x, w)) for x in ("int8", "uint8") for w in ("int8", "uint8")}
    return frozenset(of)


def test_the_few_have_every_role_and_width() -> None:
    made, missing = asked_plans(EMULATIONS[0], FAST_SEED, FAST)
    assert not missing, f"{missing}: no config of {FAST} problems on each of {EMULATIONS} has them"
    assert all(plans(name, FAST_SEED, FAST, index, 1) == [made[name, index]] for name, index in made)


@pytest.mark.slow
def test_the_many_have_every_choice_role_and_width() -> None:
    """Every role and width on each architecture, every choice on one of those that have it."""
    missing = {name: asked_plans(name, LONG_SEED, count)[1] for name, count in LONG.items()}
    choices = {f"{name}={value}" for name, values in CHOICES.items() for value in values}
    nowhere = {
        (name, feature)
        for name, features in missing.items()
        for feature in features
        if feature not in choices or all(feature in missing[other] for other in LONG)
    }
    assert not nowhere, f"{nowhere}: no config of {LONG} problems has them"


# The problems of the tests on these GPUs. A missing feature would otherwise be noticed only there.
GPUS = ("sm_90a", "sm_80", "sm_75", "gfx942", "gfx1100", "gfx1201")


@pytest.mark.parametrize("name", mostly_slow(GPUS, {"sm_90a"}))
def test_a_gpu_is_asked_for_every_role_and_width(name: str) -> None:
    _, missing = asked_of_gpu(TARGETS[name], GPU_SEED, GPU_COUNT)
    assert not missing, f"{missing}: no config of {GPU_COUNT} problems on {name} has them"


@pytest.mark.turns
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_what_matrix_instructions_refuse_others_serve(target: Target) -> None:
    kinds = Counter[str]()
    for problem in (*problems(seed=8, count=20), *matrix_problems(9, 10, target)):
        plan = generator.default(problem, target)
        kinds[plan.config.family] += 1
        if not served(problem, target):
            assert plan.config.family in ("simt", "gemv")
            with pytest.raises(Infeasible, match=r"no config of mma"):
                matrix_plan(problem, target, 0)
    assert bool(target.instructions) == bool(kinds["mma"])
