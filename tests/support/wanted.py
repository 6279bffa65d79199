"""Features that random plans must have. Each is searched for in the spaces of the problems until one has it, instead of
being left to chance, and the number of plans stays the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from qconv.errors import Infeasible
from qconv.generator import Plan


@dataclass(frozen=True)
class Wanted:
    """A test for a feature of a plan, the config values that may produce it, and the problems that may have it."""

    has: Callable[[Plan], bool]
    asks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    suits: Callable[[Any], bool] = lambda problem: True


Place = TypeVar("Place")
# Finds a plan with a feature for the problem of a place; raises Infeasible if its space has none.
Find = Callable[[Place, Wanted], Plan]


def granted(
    wanted: Mapping[str, Wanted], places: Iterable[Place], find: Find[Place]
) -> tuple[dict[Place, Plan], list[str]]:
    """Return plans for some of the places that together have the features, and the features that no place can have."""
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
