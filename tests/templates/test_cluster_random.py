"""Random plans whose blocks share a tile, in clusters or through device memory, are exact, and clean under the
sanitizers. `QCONV_CLUSTER_PLANS=300 pytest -m slow tests/templates/test_cluster_random.py` takes 300 of them."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from contextlib import suppress

import pytest
from exactness import check_all
from random_fused import family_of, fused_problems
from random_matrix import matrix_plan, matrix_problems

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.fused.plan import FusedPlan
from qconv.generator.families.mma.plan import MmaPlan
from qconv.targets.target import TARGETS
from tests.templates.test_simt_sanitizers import check

FAST, LONG, CHUNK = 4, int(os.environ.get("QCONV_CLUSTER_PLANS", "16")), 4
MOST_OPERATIONS = 1_500_000  # threads run sequentially, under a sanitizer
SM_90A = TARGETS["cpu.sm_90a"]
# The kinds of plans in turn: split over a cluster, over device memory, two convolutions in a cluster.
KINDS = ("cluster", "fused", "cluster", "scratch")


def plan_of(seed: int, index: int) -> Plan:
    kind = KINDS[index % len(KINDS)]
    draws = (random.Random(f"clusters {seed} {index} {turn}") for turn in itertools.count())
    made = (fused_in_cluster(rng) if kind == "fused" else split(rng, kind) for rng in draws)
    return next(plan for plan in made if plan is not None)


def split(rng: random.Random, kind: str) -> Plan | None:
    target = SM_90A if kind == "cluster" else TARGETS[rng.choice(("cpu.sm_80", "cpu.gfx942", "cpu.gfx1201"))]
    wanted = {"split": rng.choice((2, 4, 8))} if kind == "cluster" or rng.random() < 0.5 else {"stream_k": 1}
    (problem,) = matrix_problems(rng.getrandbits(30), 1, target)
    if problem.operations > MOST_OPERATIONS:
        return None
    try:
        plan = matrix_plan(problem, target, rng.random(), **wanted)
    except Infeasible:
        return None
    return plan if plan.combine == kind else None  # equal parts may be whole tiles


def fused_in_cluster(rng: random.Random) -> Plan | None:
    (problem,) = fused_problems(rng.getrandbits(30), 1, SM_90A)
    if problem.operations > MOST_OPERATIONS:
        return None
    family = family_of(problem)
    for _ in range(40):
        values = {name: rng.choice(choices) for name, choices in family.choices.items()}
        values |= {
            "cluster_blocks": rng.choice((2, 4)),
            "teams": 1,
            "warps": 4,
            "first_n": rng.choice((1, 2)),
            "second_n": 1,
        }
        with suppress(Infeasible):
            plan = generator.plan(problem, family.config(**values), SM_90A)
            if isinstance(plan, FusedPlan) and plan.clusters:
                return plan
    return None


def test_a_random_cluster() -> None:
    check_all([plan_of(1, index) for index in range(FAST)], 0)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
def test_nothing_is_found_in_random_clusters(first: int) -> None:
    """Alternates between late and early copies under each sanitizer."""
    for index in range(first, first + CHUNK):
        check(plan_of(2, index), ("address", "thread")[index // 4 % 2], seed=index + index // 8)


def kind_of(plan: Plan) -> str:
    if isinstance(plan, FusedPlan):
        return "cluster" if plan.clusters else "none"
    assert isinstance(plan, MmaPlan)
    return plan.combine


@pytest.mark.slow
def test_the_many_are_of_all_kinds() -> None:
    chosen = [plan_of(2, index) for index in range(60)]
    launches = [plan.main for plan in chosen]
    assert {launch.cluster for launch in launches} == {1, 2, 4, 8}
    seen = Counter((plan.config.family, kind_of(plan)) for plan in chosen)
    assert seen.keys() == {("mma", "cluster"), ("mma", "scratch"), ("fused", "cluster")}
    assert {plan.stays for plan in chosen if isinstance(plan, FusedPlan)} == {False, True}
