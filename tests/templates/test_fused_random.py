"""Random chains of convolutions through the families that run two or three in one kernel, on the CPU device: tolerance
0."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pytest
from exactness import check_all
from mostly_slow import mostly_slow
from random_fused import KINDS, fused_plan, fused_problems, kind_of
from wanted import Wanted, granted

from qconv.generator import FAMILIES, Plan
from qconv.generator.families.fused.plan import FusedPlan
from qconv.problem.chain import Chain, FusedBlock
from qconv.targets.target import TARGETS

CHUNK = 20
# Problems per kind of matrix instructions; most on the one that has every choice.
LONG = {
    "cpu.sm_90a": 300,
    "cpu.sm_80": 60,
    "cpu.sm_75": 40,
    "cpu.gfx942": 40,
    "cpu.gfx1100": 40,
    "cpu.gfx1201": 40,
}
LONG_OF_THREE = {"cpu.sm_90a": 120, "cpu.sm_80": 20, "cpu.sm_75": 20, "cpu.gfx942": 20, "cpu.gfx1201": 20}
FAST, FAST_SEED, LONG_SEED, LONG_SEED_OF_THREE = 3, 1, 2, 3
ASKED = "cpu.sm_90a"
Feature = tuple[str, Any]


def plans(name: str, seed: int, count: int, first: int, layers: int = 2) -> list[Plan]:
    """Return the requested plans, and random others."""
    made = asked(name, seed, count)[0] if (name, count, layers) == (ASKED, LONG[ASKED], 2) else {}
    chosen = list(enumerate(fused_problems(seed, count, TARGETS[name], layers)))[first : first + CHUNK]
    return [made.get(index) or fused_plan(problem, TARGETS[name], index) for index, problem in chosen]


@lru_cache
def asked(name: str, seed: int, count: int) -> tuple[dict[int, Plan], list[str]]:
    """Return plans for some of the problems that together have the wanted features, and the features that none can
    have."""
    target = TARGETS[name]
    problems = fused_problems(seed, count, target)
    of = {f"{feature}={value}": one for (feature, value), one in wanted().items()}
    return granted(of, range(count), lambda index, one: fused_plan(problems[index], target, index, one))


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(LONG, {"cpu.sm_75", "cpu.sm_80", "cpu.sm_90a", "cpu.gfx942"}))
def test_a_random_config(name: str) -> None:
    check_all(plans(name, FAST_SEED, FAST, 0)[:FAST], 0)


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(LONG_OF_THREE, {"cpu.sm_75", "cpu.sm_80", "cpu.sm_90a"}))
def test_a_random_config_of_three(name: str) -> None:
    check_all(plans(name, FAST_SEED, FAST, 0, layers=3), 0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"), [(n, first) for n, count in LONG.items() for first in range(0, count, CHUNK)]
)
def test_many_random_configs(name: str, first: int) -> None:
    check_all(plans(name, LONG_SEED, LONG[name], first), first)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"), [(n, first) for n, count in LONG_OF_THREE.items() for first in range(0, count, CHUNK)]
)
def test_many_random_configs_of_three(name: str, first: int) -> None:
    check_all(plans(name, LONG_SEED_OF_THREE, LONG_OF_THREE[name], first, layers=3), first)


def features(plan: Plan) -> set[Feature]:
    assert isinstance(plan, FusedPlan)
    divided = [layer for layer in plan.layers.values() if layer.divided]
    ragged = [layer.kind for layer in divided if layer.problem.k % layer.block_k]
    return {
        *problem_features(plan.problem),
        *((name, getattr(plan.config, name)) for name in FAMILIES["fused"].choices),
        *((f"{name} {role}", value) for name, layer in plan.layers.items() for role, value in vars(layer.roles).items()
          if isinstance(value, bool)),
        ("fewer tiles than teams", plan.tiles < plan.grid_teams),
        ("by slices", plan.by_slices),
        *((f"ragged share of {kind}", True) for kind in ragged),
    }  # fmt: skip


def problem_features(problem: Chain) -> set[Feature]:
    q1, q2 = problem.first.quantization, problem.last.quantization
    return {
        ("kinds", (kind_of(problem.first), kind_of(problem.last))),
        ("between", (q1.out_type, q1.y_zero_point)),
        ("input zero point", q1.x_zero_point),
        ("weights' zero points", (q1.w_zero_point, q2.w_zero_point)),
        ("per channel", (q1.per_channel, q2.per_channel)),
        ("biases", (q1.bias != "none", q2.bias != "none")),
        ("activations", (q1.activation != "none", q2.activation != "none")),
        ("residual", q2.residual != "none"),
    }


# Blocks that share a tile have few slabs each.
DIVIDED = {"teams": (1,), "cluster_blocks": (2, 4), "warps": (4,), "first_n": (1,), "second_n": (1,)}
# Config values that produce a feature; a choice produces itself, and the rest follows from the problem.
ASKS: dict[Feature, Mapping[str, Sequence[int]]] = {
    **{("cluster_blocks", many): DIVIDED | {"cluster_blocks": (many,)} for many in (3, 4, 8)},
    ("by slices", True): DIVIDED | {"first_n": (1, 2, 4)},
    ("fewer tiles than teams", True): {"teams": (2, 3, 4, 6), "weights_in_smem": (1, 2), "cluster_blocks": (1,)},
    ("ragged share of matrix", True): DIVIDED,
    ("ragged share of depthwise", True): DIVIDED,
}


def wanted() -> dict[Feature, Wanted]:
    """Return the features of the architecture that has every choice, first those for which a config must be made."""
    of: set[Feature] = {(name, value) for name, values in FAMILIES["fused"].choices.items() for value in values}
    of |= {("kinds", (a, b)) for a in KINDS for b in KINDS}
    of |= {("between", (out, zero)) for out in ("int8", "uint8") for zero in (False, True)}
    both = [(a, b) for a in (False, True) for b in (False, True)]
    for name in ("weights' zero points", "per channel", "biases", "activations"):
        of |= {(name, pair) for pair in both}
    for name in (
        "residual",
        "input zero point",
        "first fills",
        "first bordered",
        "first whole_taps",
        "second whole_taps",
        "first by_turns",
        "first gathers",
        "first two_ways",
        "second rolled",
        "second weight_ring",
    ):
        of |= {(name, flag) for flag in (False, True)}
    of |= set(ASKS)
    of -= {("cluster_blocks", 6)}  # it needs 96 channels, which no problem has: see test_fused_slices
    of -= {("tile_h", 28), ("tile_w", 28)}  # images would take too long: see test_fused_borders
    return {feature: asks_for(feature) for feature in sorted(of, key=lambda one: (not asks_for(one).asks, str(one)))}


def asks_for(feature: Feature) -> Wanted:
    name, value = feature
    asks = ASKS.get(feature, {name: (value,)} if name in FAMILIES["fused"].choices else {})
    of_problem = name in {known for known, _ in problem_features(fused_problems(0, 1, TARGETS[ASKED])[0])}
    return Wanted(
        lambda plan: feature in features(plan),
        asks,
        lambda problem: not of_problem or feature in problem_features(problem),
    )


@pytest.mark.slow
def test_the_many_have_every_choice_and_kind() -> None:
    made, missing = asked(ASKED, LONG_SEED, LONG[ASKED])
    assert not missing, f"{missing}: no config of {LONG[ASKED]} problems on {ASKED} has them"
    index, plan = max(made.items())
    assert plans(ASKED, LONG_SEED, LONG[ASKED], index)[0] == plan


@pytest.mark.slow
def test_the_many_of_three_have_every_kind() -> None:
    every = [
        plan for first in range(0, 120, CHUNK) for plan in plans("cpu.sm_90a", LONG_SEED_OF_THREE, 120, first, layers=3)
    ]
    of_chain = ("teams", "weights_in_smem", "on_wgmma")  # the others belong to a layer, and pairs cover all of them
    wanted: set[tuple[str, Any]] = {(name, value) for name in of_chain for value in FAMILIES["block"].choices[name]}
    wanted -= {("on_wgmma", 3)}  # one problem in a hundred could: see test_fused_sanitizers
    wanted |= {(f"{at} kinds", kinds) for at in (0, 1) for kinds in itertools.product(KINDS, repeat=2)}
    wanted |= {(f"{layer} kind", kind) for layer in FusedBlock.LAYERS for kind in ("depthwise", "matrix", "warpgroup")}
    seen: set[tuple[str, Any]] = set()
    for plan in every:
        assert isinstance(plan, FusedPlan)
        seen |= {(name, getattr(plan.config, name)) for name in of_chain}
        kinds = [kind_of(one) for one in plan.problem.layers.values()]
        seen |= {(f"{at} kinds", both) for at, both in enumerate(itertools.pairwise(kinds))}
        seen |= {(f"{name} kind", layer.kind) for name, layer in plan.layers.items()}
    assert not (missing := wanted - seen), f"{missing} never occur"
