"""Random problems through the matrix instructions of every architecture, which the CPU device executes: tolerance 0."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from exactness import check_all
from random_matrix import BANDS, EMULATIONS, constants, matrix_plan, matrix_problems, served
from random_problems import problems

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.mma_space import CHOICES
from qconv.target import TARGETS, Target

FAST = 10
# 300 for each family of instructions: mma, MFMA and WMMA.
LONG = {
    **dict.fromkeys(("cpu.sm_75", "cpu.sm_80", "cpu.gfx1100", "cpu.gfx1201"), 150),
    **dict.fromkeys(("cpu.gfx908", "cpu.gfx942", "cpu.gfx950"), 100),
}
FAST_SEED, LONG_SEED = 1, 2
CHUNK = 10


def plans(name: str, seed: int, count: int, first: int, chunk: int) -> list[Plan]:
    target = TARGETS[name]
    chosen = list(enumerate(matrix_problems(seed, count, target)))[first : first + chunk]
    return [matrix_plan(problem, target, index) for index, problem in chosen]


@pytest.mark.parametrize("first", range(0, FAST, CHUNK))
@pytest.mark.parametrize("name", EMULATIONS)
def test_a_random_config(name: str, first: int) -> None:
    check_all(plans(name, FAST_SEED, FAST, first, CHUNK), first)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [(n, first) for n in EMULATIONS for first in range(0, LONG[n], CHUNK)])
def test_many_random_configs(name: str, first: int) -> None:
    check_all(plans(name, LONG_SEED, LONG[name], first, CHUNK), first)


@pytest.mark.slow
@pytest.mark.parametrize("name", EMULATIONS)
def test_tiles_in_bands(name: str) -> None:
    check_all([matrix_plan(BANDS, TARGETS[name], 0, band=8), matrix_plan(BANDS, TARGETS[name], 1, band=8)], 0)


# What a plan is made of, beside its choices.
ROLES = (
    *("atom", "loader", "gathers_x", "gathers_w", "combine", "schedule", "stream", "tail"),
    *("ahead", "taps_first", "gemm", "store"),
)
WIDTHS = ("X_BYTES", "W_BYTES", "VECTOR_N", "TAIL", "PADDED")
Feature = tuple[str, Any]


def features(plan: Plan) -> set[Feature]:
    known, q = constants(plan), plan.problem.quantization
    return {
        *((name, getattr(plan.config, name)) for name in CHOICES),
        *((f"role {name}", plan.roles[name]) for name in ROLES),
        *((name, known[name]) for name in WIDTHS),
        (f"types of {plan.roles['atom']}", (q.x_type, q.w_type)),
        ("layout", plan.problem.layout),
        ("output", q.out_type),
        ("residual", q.residual),
        ("zero points", (q.x_zero_point, q.w_zero_point)),
        ("depthwise", plan.problem.c_group == 1),
        ("groups", plan.problem.groups > 1),
    }


# On every architecture. What it lacks is left out below.
WANTED: dict[str, tuple[Any, ...]] = {
    **CHOICES,
    "role gathers_x": (False, True),
    "role gathers_w": (False, True),
    "role combine": ("none", "scratch", "cluster"),
    "role schedule": ("tile", "persist"),
    "role stream": (False, True),
    "role tail": (False, True),
    "role taps_first": (False, True),
    "role gemm": (False, True),
    "role store": ("direct", "staged"),
    "X_BYTES": (1, 4, 8, 16),
    "W_BYTES": (1, 4, 8, 16),
    "VECTOR_N": (1, 2, 4, 8, 16),
    "TAIL": (False, True),
    "PADDED": (False, True),
    "layout": ("nhwc", "nchw"),
    "output": ("int8", "uint8", "int32", "float32", "float16", "bfloat16"),
    "residual": ("none", "int8", "uint8"),
    "zero points": ((False, False), (False, True), (True, False), (True, True)),
    "depthwise": (False, True),
    "groups": (False, True),
}


def wanted(target: Target) -> set[Feature]:
    """Every value of every choice, but those that the architecture has no use for."""
    smallest = min(instruction.n for instruction in target.instructions)
    narrow = {"tile_n": smallest, "warp_n": smallest, "VECTOR_N": 1}
    lacks: dict[str, tuple[Any, ...]] = {
        "instruction": CHOICES["instruction"][len(target.instructions) :],
        "stages": () if target.async_copies else CHOICES["stages"][1:],
        "ahead": () if target.async_copies or target.buffer_word is not None else (1,),
        "band": (8,),  # of large layers only: see `test_tiles_in_bands`
        "role combine": () if target.clusters else ("cluster",),
    }
    return {
        (name, value)
        for name, values in WANTED.items()
        for value in values
        if value not in lacks.get(name, ()) and value >= narrow.get(name, value)
    }


@pytest.mark.slow
def test_the_many_have_every_choice_role_and_width() -> None:
    """Every role and width on each architecture, every choice on one of those that have it."""
    seen = {
        name: {feature for plan in plans(name, LONG_SEED, count, 0, count) for feature in features(plan)}
        for name, count in LONG.items()
    }
    together = set().union(*seen.values())
    missing = {
        (name, feature)
        for name in EMULATIONS
        for feature in wanted(TARGETS[name])
        if feature not in (together if feature[0] in CHOICES else seen[name])
    }
    assert not missing, f"{missing} never occur in {LONG} problems"


def test_the_few_have_every_role_and_width() -> None:
    """All architectures together, as the whole tests do each of them."""
    chosen = [plan for name in EMULATIONS for plan in plans(name, FAST_SEED, FAST, 0, FAST)]
    seen = Counter(feature for plan in chosen for feature in features(plan))
    everything = {f for name in EMULATIONS for f in wanted(TARGETS[name]) if f[0] not in CHOICES}
    everything |= {("role loader", loader) for loader in ("registers", "buffers", "async")}
    everything |= {("types of mfma", ("int8", "int8")), ("role ahead", False), ("role ahead", True)}
    for atom in ("mma_m8n8k16", "mma_m16n8k32", "wmma_gfx11", "wmma_gfx12"):
        everything |= {(f"types of {atom}", (x, w)) for x in ("int8", "uint8") for w in ("int8", "uint8")}
    missing = {feature for feature in everything if not seen[feature]}
    assert not missing, f"{missing} never occur in {len(chosen)} problems"


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
    assert kinds["simt"]
    assert bool(target.instructions) == bool(kinds["mma"])
