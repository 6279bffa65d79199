"""The untuned choice is the config that the cost model predicts to be fastest, for one kernel and for chains."""

from __future__ import annotations

from qconv import Conv2d, generator
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS

PROBLEM = Conv2d(1, 5, 5, 8, 16, 3, 3, pad=1)
CHAIN = chain_of([PROBLEM, Conv2d(1, 5, 5, 16, 8, 1, 1)])


def test_the_default_is_the_first_of_a_space_in_order_of_cost() -> None:
    target = TARGETS["cpu"]
    plans, _ = generator.space(PROBLEM, target, likely=True)
    costs = [generator.cost(plan) for plan in plans]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert generator.default(PROBLEM, target).config == plans[0].config


def test_of_one_kernel_and_of_two_the_one_that_is_expected_to_be_faster() -> None:
    for name in ("cpu", "cpu.sm_80", "sm_90a"):
        target = TARGETS[name]
        ways = [*generator.cheapest(CHAIN, target, generator.RANKED), generator.unfused_plan(CHAIN, target)]
        times = [one.us for one in generator.expected(ways)]
        assert generator.expected([generator.default(CHAIN, target)])[0].us == min(times)


def test_so_many_of_each_family_are_looked_at() -> None:
    target = TARGETS["sm_90a"]
    plans = generator.cheapest(PROBLEM, target, 3)
    every, _ = generator.space(PROBLEM, target, likely=True)
    for family in {plan.config.family for plan in every}:
        own = [plan for plan in every if plan.config.family == family]
        assert [plan for plan in plans if plan.config.family == family] == own[:3]


def test_a_problem_that_comes_again_is_planned_once() -> None:
    """A network has the same layer many times, and a lookup without measurements waits for the planning."""
    again = Conv2d(1, 5, 5, 8, 16, 3, 3, pad=1)
    assert again is not PROBLEM
    one, other = (generator.cheapest(problem, TARGETS["cpu"], 3) for problem in (PROBLEM, again))
    assert one[0] is other[0]
    assert generator.cheapest(PROBLEM, TARGETS["cpu.sm_80"], 3)[0].target.name == "cpu.sm_80"
