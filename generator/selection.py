"""The cheapest plans of a family by its cost model, without planning every config."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.plan import Plan
from qconv.op import Problem
from qconv.targets.target import Target


class Cheap(NamedTuple):
    """A plan with its cost. Of plans with the same cost, the one of the earlier config comes first."""

    cost: float
    group: int
    number: int  # in the group
    plan: Plan


class Cheapest(NamedTuple):
    """The cheapest plans, the first ones first; or without any, why the first config is infeasible."""

    plans: list[Cheap]
    why_not: str | None


def cheapest_of(family: Family, problem: Problem, target: Target, likely: bool, most: int) -> Cheapest:
    """Return the `most` cheapest plans. Groups are planned in the order of their bounds, until a bound is above the
    cost of all that were found."""
    found: list[Cheap] = []
    why_not: str | None = None
    groups = sorted(enumerate(family.groups(problem, target, likely)), key=lambda pair: pair[1].least)
    for number, group in groups:
        if len(found) == most and group.least > found[-1].cost:
            break
        for at, config in enumerate(group.configs):
            try:
                plan = family.plan(problem, config, target)
            except Infeasible as reason:
                why_not = why_not or str(reason)
                continue
            one = Cheap(family.cost(plan), number, at, plan)
            if len(found) < most or one < found[-1]:
                insort(found, one)
                del found[most:]
    if not found and why_not is None and family.why_none is not None:
        why_not = family.why_none(problem, target)  # it has no config at all
    return Cheapest(found, why_not)
