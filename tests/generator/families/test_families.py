"""The contract of a family: its plan serves a problem or raises Infeasible, whatever the problem."""

from __future__ import annotations

import random

import pytest
from grown import grown_problems

from qconv import generator
from qconv.errors import Infeasible
from qconv.ops.registry import parse
from qconv.targets.target import TARGETS, Target

CONFIGS = 24  # per family and problem
GPUS = [target for target in TARGETS.values() if target.vendor != "cpu"]


# Problems whose kernels work on a larger one: channels, filters or outputs of zeros fill a step or a pair.
SEEN_LARGER = {
    "channels of a part": "conv2d:n=1:h=11585:w=11585:c=16:k=16:r=1:s=1:stride=128,128:x_type=int8:w_type=int8:"
    "out_type=int8",
    "columns as channels": "conv2d:n=1:h=8:w=8:c=17:k=24472816:r=1:s=5:stride=1,2:x_type=int8:w_type=int8:"
    "out_type=int8:x_zero_point",
    "outputs as the pool's padding": "conv2d_pool:n=3:h=3313992:w=16:c=4:k=48:r=1:s=3:stride=2,2:pad=2,0,3,3:"
    "x_type=int8:w_type=int8:out_type=int8:activation=relu:window=3,3:window_stride=2,2:window_pad=1,0,0,0:ceil_mode",
}


@pytest.mark.parametrize("key", SEEN_LARGER.values(), ids=SEEN_LARGER)
def test_a_problem_that_a_kernel_sees_larger_is_served_by_another(key: str) -> None:
    problem, target = parse(key), TARGETS["sm_90a"]
    check_plans(key, target, random.Random(key))
    if not problem.parts:
        assert generator.default(problem, target).config.family not in ("halo", "halo_split")
    assert generator.default(problem, TARGETS["sm_80"]).problem == problem


def check_plans(key: str, target: Target, rng: random.Random) -> None:
    problem = parse(key)
    for family in generator.families(problem).values():
        if family.name == "unfused":
            continue  # its configs are pairs of other configs
        for _ in range(CONFIGS):
            config = family.config(**{name: rng.choice(values) for name, values in family.choices.items()})
            try:
                plan = generator.plan(problem, config, target)
            except Infeasible:
                continue
            assert plan.launches
            assert plan.fields
            assert plan.constants
            assert generator.cost(plan) >= 0


@pytest.mark.turns
@pytest.mark.parametrize("seed", range(6))
def test_a_plan_of_a_problem_near_the_limits_is_served_or_infeasible(seed: int) -> None:
    rng = random.Random(f"plans {seed}")
    for problem in grown_problems(seed, 60):
        for target in (TARGETS["sm_90a"], rng.choice(GPUS)):
            check_plans(str(problem), target, rng)


@pytest.mark.parametrize("seed", range(2))
def test_the_default_of_a_problem_near_the_limits_is_a_plan_or_infeasible(seed: int) -> None:
    for problem in grown_problems(100 + seed, 6):
        try:
            plan = generator.default(problem, TARGETS["sm_90a"])
        except Infeasible:
            continue
        assert plan.problem == problem
