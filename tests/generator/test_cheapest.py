"""What is used untuned is the cheapest by the cost model, of one kernel as of the ways to run a chain."""

from __future__ import annotations

from qconv import Conv2d, generator
from qconv.fused import chain_of
from qconv.target import TARGETS

PROBLEM = Conv2d(1, 5, 5, 8, 16, 3, 3, pad=1)
CHAIN = chain_of([PROBLEM, Conv2d(1, 5, 5, 16, 8, 1, 1)])


def test_the_default_is_the_first_of_a_space_in_order_of_cost() -> None:
    target = TARGETS["cpu"]
    plans, _ = generator.space(PROBLEM, target, likely=True)
    costs = [generator.cost(plan) for plan in plans]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert generator.default(PROBLEM, target).config == plans[0].config


def test_of_one_kernel_and_of_two_the_cheaper() -> None:
    for name in ("cpu", "cpu.sm_80", "sm_90a"):
        target = TARGETS[name]
        fused, _ = generator.space(CHAIN, target, likely=True)
        ways = [*fused[:1], generator.unfused_plan(CHAIN, target)]
        costs = [generator.cost(plan) for plan in ways]
        assert generator.cost(generator.default(CHAIN, target)) == min(costs)
        assert len(set(costs)) == len(ways)
