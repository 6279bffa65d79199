"""Features that random plans must have: each is asked for, and looked for in the spaces of the problems until one has
it. None is hoped for, and the number of plans stays what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from qconv.errors import Infeasible
from qconv.generator import Plan


@dataclass(frozen=True)
class Wanted:
    """How one sees that a plan has a feature, the values of its config that may bring it, and which problems may have
    it."""

    has: Callable[[Plan], bool]
    asks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    suits: Callable[[Any], bool] = lambda problem: True


Place = TypeVar("Place")
# A plan for the problem of a place with a feature; Infeasible where its space has none.
Find = Callable[[Place, Wanted], Plan]


def granted(
    wanted: Mapping[str, Wanted], places: Iterable[Place], find: Find[Place]
) -> tuple[dict[Place, Plan], list[str]]:
    """Plans for some of the places, which together have the features; and those that no place can have."""
    plans: dict[Place, Plan] = {}
    missing: list[str] = []
    free = list(places)
    for name, feature in wanted.items():
        if any(feature.has(plan) for plan in plans.values()):
            continue
        for place in free:
            try:
                plans[place] = find(place, feature)
            except Infeasible:
                continue
            free.remove(place)
            break
        else:
            missing.append(name)
    return plans, missing
