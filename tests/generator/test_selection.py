"""The cheapest plans are those of the whole space, though most configs are never planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.errors import Infeasible
from qconv.generator import Config, Plan
from qconv.generator.families import Family, Group
from qconv.generator.selection import cheapest_of
from qconv.op import Problem
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS

HALF = Quantization("float16", "float16", "float16")


def separable(n: int, side: int, c: int, k: int) -> list[Conv2d]:
    """Return a depthwise convolution of floats, and the 1x1 convolution behind it."""
    return [
        Conv2d(n, side, side, c, c, 3, 3, pad=1, groups=c, quantization=HALF),
        Conv2d(n, side, side, c, k, 1, 1, quantization=HALF),
    ]


POINTWISE = Conv2d(8, 28, 28, 128, 256, 1, 1)
CHAINS = {
    "pointwise, dense": chain_of([Conv2d(8, 28, 28, 64, 64, 1, 1), Conv2d(8, 28, 28, 64, 64, 3, 3, pad=1)]),
    "grouped, pointwise": chain_of([Conv2d(2, 14, 14, 96, 96, 3, 3, pad=1, groups=4), Conv2d(2, 14, 14, 96, 32, 1, 1)]),
    "pointwise, depthwise": chain_of([Conv2d(8, 14, 14, 64, 192, 1, 1), Conv2d(8, 14, 14, 192, 192, 3, 3, groups=192)]),
    "depthwise, pointwise": chain_of(
        [Conv2d(1, 56, 56, 96, 96, 3, 3, stride=2, pad=1, groups=96), Conv2d(1, 28, 28, 96, 24, 1, 1)]
    ),
    "two depthwise of floats": chain_of([separable(2, 28, 96, 24)[0]] * 2),
    "three": chain_of(
        [
            Conv2d(8, 14, 14, 64, 64, 1, 1),
            Conv2d(8, 14, 14, 64, 64, 3, 3, pad=1),
            Conv2d(8, 14, 14, 64, 256, 1, 1),
        ]
    ),
}
TARGETS_OF_CHAINS = ("sm_90a", "sm_80", "gfx1100", "cpu.sm_80")
MOST = 32


def family_of(problem: Problem) -> Family:
    return next(one for one in generator.families(problem).values() if one.grouped is not None)


@pytest.mark.turns
@pytest.mark.parametrize("target", TARGETS_OF_CHAINS)
@pytest.mark.parametrize("problem", CHAINS.values(), ids=CHAINS)
def test_they_are_the_first_of_the_space(problem: Problem, target: str) -> None:
    plans, _ = generator.space(problem, TARGETS[target], likely=True)
    found = generator.cheapest(problem, TARGETS[target], MOST)
    assert [plan.config for plan in found] == [plan.config for plan in plans[:MOST]]


@pytest.mark.turns
@pytest.mark.parametrize("target", TARGETS_OF_CHAINS)
@pytest.mark.parametrize("problem", CHAINS.values(), ids=CHAINS)
def test_no_plan_of_a_group_costs_less_than_its_bound(problem: Problem, target: str) -> None:
    family, bounds = family_of(problem), set()
    for group in family.groups(problem, TARGETS[target], likely=True):
        bounds.add(group.least)
        for config in group.configs:
            try:
                plan = family.plan(problem, config, TARGETS[target])
            except Infeasible:
                continue
            assert group.least <= family.cost(plan), config
    assert len(bounds) > 1


@pytest.mark.turns
@pytest.mark.parametrize("problem", CHAINS.values(), ids=CHAINS)
def test_the_groups_have_the_configs_of_a_search(problem: Problem) -> None:
    family = family_of(problem)
    groups = family.groups(problem, TARGETS["sm_90a"])
    assert [config for group in groups for config in group.configs] == [*family.configs(problem, TARGETS["sm_90a"])]


def test_families_of_several_serve_the_same_problem_cheapest_first() -> None:
    plans, _ = generator.space(POINTWISE, TARGETS["sm_90a"], likely=True)
    found = generator.cheapest(POINTWISE, TARGETS["sm_90a"], MOST)
    order = dict.fromkeys(plan.config.family for plan in plans)
    expected = [[plan.config for plan in plans if plan.config.family == family][:MOST] for family in order]
    assert [plan.config for plan in found] == [config for own in expected for config in own]


def test_most_configs_are_never_planned() -> None:
    problem, target, planned = CHAINS["pointwise, dense"], TARGETS["sm_90a"], list[Config]()
    family = family_of(problem)

    def plan(*given: Any) -> Plan:
        planned.append(given[1])
        return family.plan(*given)

    found = cheapest_of(replace(family, plan=plan), problem, target, True, MOST)
    assert len(found.plans) == MOST
    every = sum(1 for _ in family.configs(problem, target, likely=True))
    assert len(planned) < every / 4


@dataclass(frozen=True)
class Priced(Config):
    """A config whose plan costs `price`."""

    family: ClassVar[str] = "priced"
    price: int
    number: int


def family_with(groups: list[tuple[float, list[int | None]]]) -> tuple[Family, list[int]]:
    """Return a family with these bounds and prices, None for what is infeasible, and the numbers of those planned."""
    planned: list[int] = []

    def grouped(*_: Any) -> Iterator[Group]:
        numbers = iter(range(100))
        for least, prices in groups:
            yield Group(least, iter([Priced(-1 if price is None else price, next(numbers)) for price in prices]))

    def plan(_: Any, config: Priced, __: Any) -> Any:
        planned.append(config.number)
        if config.price < 0:
            raise Infeasible(f"number {config.number} is infeasible")
        return config

    def cost(plan: Any) -> float:
        return float(plan.price)

    return Family(ops=(), config=Priced, choices={}, plan=plan, cost=cost, grouped=grouped), planned


def chosen(groups: list[tuple[float, list[int | None]]], most: int) -> tuple[list[int], list[int]]:
    family, planned = family_with(groups)
    found = cheapest_of(family, POINTWISE, TARGETS["cpu"], False, most)
    return [cast(Priced, one.plan).number for one in found.plans], planned


def test_of_equals_the_earlier_config_comes_first() -> None:
    # The second group is planned first, and the first one's plan costs as much as its bound.
    assert chosen([(3.0, [3]), (1.0, [3, 5])], 1) == ([0], [1, 2, 0])


def test_a_bound_above_all_that_were_found_ends_the_search() -> None:
    assert chosen([(9.0, [9, 9]), (1.0, [2, 4, 8])], 2) == ([2, 3], [2, 3, 4])


def test_what_is_infeasible_is_told_where_nothing_is_feasible() -> None:
    family, planned = family_with([(float("inf"), [None, None])])
    found = cheapest_of(family, POINTWISE, TARGETS["cpu"], False, 2)
    assert found.plans == []
    assert found.why_not == "number 0 is infeasible"
    assert planned == [0, 1]


@pytest.mark.parametrize(("layer", "family"), [((32, 56, 72, 24), "fused"), ((32, 7, 960, 160), "unfused")])
def test_floats_are_fused_where_that_is_predicted_to_be_faster(layer: tuple[int, int, int, int], family: str) -> None:
    chain, target = chain_of(separable(*layer)), TARGETS["sm_90a"]
    assert generator.default(chain, target).config.family == family
    both = [generator.cheapest(chain, target, 1)[0], generator.unfused_plan(chain, target)]
    assert both[0].config.family == "fused"
    fused, unfused = generator.expected(both)
    assert (fused.us < unfused.us) == (family == "fused")
