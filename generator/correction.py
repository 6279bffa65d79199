"""What a plan is expected to take, and how sure that is: its family's cost model, corrected by trees that were fitted
to what the model got wrong. What lies in `corrections` is written by bench/correct.py, a file for each family."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from qconv.generator.cost_units import CLOCK_MHZ
from qconv.generator.features import features, names
from qconv.generator.forest import Forest, Tree
from qconv.generator.plan import Plan

# How far a time is off, as a factor's logarithm, where nothing was measured to tell.
UNKNOWN = 0.4


@dataclass(frozen=True)
class Correction:
    """What one family's model is off by on one generation of GPUs. `spread`: the root mean square of what the logarithm
    of a time is still off by, for networks that the trees were not fitted to."""

    generation: str
    spread: float
    features: tuple[str, ...]  # by name
    forest: Forest

    def knows(self, plan: Plan) -> bool:
        """Whether it was fitted to plans with these features: a convolution with a pool behind it has others than the
        chains to which the correction of `unfused` was fitted."""
        return plan.target.generation.name == self.generation and names(plan) == self.features


@dataclass(frozen=True)
class Expected:
    us: float
    spread: float

    @property
    def is_corrected(self) -> bool:
        return self.spread < UNKNOWN

    def __str__(self) -> str:
        return f"{self.us:.1f} us, give or take {100 * math.expm1(self.spread):.0f} %"


@dataclass(frozen=True)
class Model:
    """The cost models of all families with their corrections, each found by its family's name."""

    correction: Callable[[str], Correction | None]

    def expected(self, plans: Sequence[Plan]) -> list[Expected]:
        """In their order. Of a generation that nobody corrected the models for, what the models say."""
        found: dict[int, Expected] = {}
        families: dict[str, list[int]] = {}
        for number, plan in enumerate(plans):
            families.setdefault(plan.config.family, []).append(number)
        for family, numbers in families.items():
            own = [plans[number] for number in numbers]
            found |= dict(zip(numbers, self._of_family(family, own), strict=True))
        return [found[number] for number in range(len(plans))]

    def base_us(self, plan: Plan) -> float:
        """What is corrected: the family's cost model, or what the kernels of a chain are expected to take."""
        if plan.parts:
            return sum(one.us for part in plan.parts for one in self.expected([part]))
        return plan.cost() / CLOCK_MHZ

    def _of_family(self, family: str, plans: list[Plan]) -> list[Expected]:
        bases = [self.base_us(plan) for plan in plans]
        correction = self.correction(family)
        if correction is None or not correction.knows(plans[0]):
            return [Expected(base, UNKNOWN) for base in bases]
        rows = [features(plan, base * CLOCK_MHZ) for plan, base in zip(plans, bases, strict=True)]
        factors = np.exp(correction.forest.values(rows)).tolist()
        return [Expected(base * factor, correction.spread) for base, factor in zip(bases, factors, strict=True)]


@cache
def stored(family: str) -> Correction | None:
    """Read when it is first asked for: a lookup needs few."""
    path = resources.files("qconv.generator") / "corrections" / f"{family}.json"
    return read(path.read_text()) if path.is_file() else None


def read(text: str) -> Correction:
    """What `written` wrote."""
    said = json.loads(text)
    trees = tuple(Tree(tuple(asked), tuple(limits), tuple(leaves)) for asked, limits, leaves in said["trees"])
    return Correction(said["generation"], said["spread"], tuple(said["features"]), Forest(trees))


def written(correction: Correction) -> str:
    """Text that a person reviews: after the head a tree a line, what its nodes ask, by a feature's number and a limit,
    and its leaves."""
    head = {"generation": correction.generation, "spread": correction.spread, "features": correction.features}
    trees = (
        json.dumps([tree.features, tree.limits, tree.leaves], separators=(",", ":")) for tree in correction.forest.trees
    )
    return json.dumps(head)[:-1] + ', "trees": [\n' + ",\n".join(trees) + "\n]}\n"


MODEL = Model(stored)
