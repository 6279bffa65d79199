"""The spaces of a workload's problems, each enumerated once: a problem is visited again after all the others."""

from __future__ import annotations

from collections.abc import Sequence

from qconv import generator
from qconv.generator import Plan
from qconv.op import Problem
from qconv.target import Target

# Plans that are kept, all spaces together: with what a search has asked of it, a plan takes 1.0 to 1.7 kB.
MOST_KEPT = 200_000


class Spaces:
    """Those that come first are kept. Visits come in nearly the same order again, so that one which took the place of
    an older would drive out what is needed next."""

    def __init__(self, target: Target, most: int = MOST_KEPT) -> None:
        self._target, self._left = target, most
        self._kept: dict[Problem, Sequence[Plan]] = {}

    def plans(self, problem: Problem, again: bool) -> Sequence[Plan]:
        """The feasible ones, cheapest first. They are kept while the problem may be visited `again`."""
        plans = self._kept.pop(problem, None)
        if plans is None:
            plans, _ = generator.space(problem, self._target)
        else:
            self._left += len(plans)
        if again and len(plans) <= self._left:
            self._kept[problem] = plans
            self._left -= len(plans)
        return plans
