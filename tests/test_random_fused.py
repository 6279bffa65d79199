"""Random chains of convolutions through the families that run two or three in one kernel, on the CPU device: tolerance
0."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from exactness import check_all
from random_fused import KINDS, fused_plan, fused_problems, kind_of

from qconv.fused import FusedBlock
from qconv.generator import FAMILIES, Plan
from qconv.target import TARGETS

CHUNK = 20
# Of every kind of matrix instructions; most on the one whose choices are all there are.
LONG = {
    "cpu.sm_90a": 300,
    "cpu.sm_80": 60,
    "cpu.sm_75": 40,
    "cpu.gfx942": 40,
    "cpu.gfx1100": 40,
    "cpu.gfx1201": 40,
}
LONG_OF_THREE = {"cpu.sm_90a": 120, "cpu.sm_80": 20, "cpu.sm_75": 20, "cpu.gfx942": 20, "cpu.gfx1201": 20}
FAST, FAST_SEED, LONG_SEED = 3, 1, 2


def plans(name: str, seed: int, count: int, first: int, stages: int = 2) -> list[Plan]:
    chosen = list(enumerate(fused_problems(seed, count, TARGETS[name], stages)))[first : first + CHUNK]
    return [fused_plan(problem, TARGETS[name], index) for index, problem in chosen]


@pytest.mark.parametrize("name", LONG)
def test_a_random_config(name: str) -> None:
    check_all(plans(name, FAST_SEED, FAST, 0)[:FAST], 0)


@pytest.mark.parametrize("name", LONG_OF_THREE)
def test_a_random_config_of_three(name: str) -> None:
    check_all(plans(name, FAST_SEED, FAST, 0, stages=3), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"), [(n, first) for n, count in LONG.items() for first in range(0, count, CHUNK)]
)
def test_many_random_configs(name: str, first: int) -> None:
    check_all(plans(name, LONG_SEED, LONG[name], first), first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"), [(n, first) for n, count in LONG_OF_THREE.items() for first in range(0, count, CHUNK)]
)
def test_many_random_configs_of_three(name: str, first: int) -> None:
    check_all(plans(name, LONG_SEED, LONG_OF_THREE[name], first, stages=3), first)


def features(plan: Plan) -> set[tuple[str, Any]]:
    first, second = plan.problem.first, plan.problem.second  # type: ignore[attr-defined]
    q1, q2 = first.quantization, second.quantization
    return {
        *((name, getattr(plan.config, name)) for name in FAMILIES["fused"].choices),
        ("kinds", (kind_of(first), kind_of(second))),
        ("between", (q1.out_type, q1.y_zero_point)),
        ("input zero point", q1.x_zero_point),
        ("weights' zero points", (q1.w_zero_point, q2.w_zero_point)),
        ("per channel", (q1.per_channel, q2.per_channel)),
        ("biases", (q1.bias != "none", q2.bias != "none")),
        ("activations", (q1.activation != "none", q2.activation != "none")),
        ("residual", q2.residual != "none"),
        *((f"{name} {role}", value) for name, stage in plan.stages.items() for role, value in stage.roles.items()
          if isinstance(value, bool)),
    }  # fmt: skip


@pytest.mark.slow
def test_the_many_have_every_choice_and_kind() -> None:
    every = [plan for first in range(0, 300, CHUNK) for plan in plans("cpu.sm_90a", LONG_SEED, 300, first)]
    seen = Counter(feature for plan in every for feature in features(plan))
    wanted = {(name, value) for name, values in FAMILIES["fused"].choices.items() for value in values}
    wanted |= {("kinds", (a, b)) for a in KINDS for b in KINDS}
    wanted |= {("between", (out, zero)) for out in ("int8", "uint8") for zero in (False, True)}
    both = [(a, b) for a in (False, True) for b in (False, True)]
    for name in ("weights' zero points", "per channel", "biases", "activations"):
        wanted |= {(name, pair) for pair in both}
    for name in (
        "residual",
        "input zero point",
        "first fills",
        "first whole_taps",
        "second whole_taps",
        "first by_turns",
        "first gathers",
        "first two_ways",
        "second rolled",
        "second streams",
    ):
        wanted |= {(name, flag) for flag in (False, True)}
    assert not (missing := {feature for feature in wanted if not seen[feature]}), f"{missing} never occur"


@pytest.mark.slow
def test_the_many_of_three_have_every_kind() -> None:
    every = [plan for first in range(0, 120, CHUNK) for plan in plans("cpu.sm_90a", LONG_SEED, 120, first, stages=3)]
    of_chain = ("teams", "holds", "wide")  # the others are a stage's, and pairs have all of them
    wanted: set[tuple[str, Any]] = {(name, value) for name in of_chain for value in FAMILIES["block"].choices[name]}
    wanted -= {("wide", 3)}  # one problem in a hundred could: test_sanitizers_fused has it
    wanted |= {(f"{at} kinds", kinds) for at in (0, 1) for kinds in itertools.product(KINDS, repeat=2)}
    wanted |= {(f"{stage} kind", kind) for stage in FusedBlock.STAGES for kind in ("depthwise", "matrix", "warpgroup")}
    seen: set[tuple[str, Any]] = set()
    for plan in every:
        assert isinstance(plan.problem, FusedBlock)
        seen |= {(name, getattr(plan.config, name)) for name in of_chain}
        kinds = [kind_of(one) for one in plan.problem.stages.values()]
        seen |= {(f"{at} kinds", both) for at, both in enumerate(itertools.pairwise(kinds))}
        seen |= {(f"{name} kind", stage.roles["kind"]) for name, stage in plan.stages.items()}
    assert not (missing := wanted - seen), f"{missing} never occur"
