"""Sums of small regression trees as plain numbers, of many rows at a time: no dependency but NumPy.

What a plan is expected to take, and how sure that is: its family's cost model, corrected by trees that were fitted
to what the model got wrong. What lies in `corrections` is written by bench/correct.py, a file for each family.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from qconv.generator.cost_units import CLOCK_MHZ
from qconv.generator.expect.features import features
from qconv.generator.family import Family
from qconv.generator.plan import Plan

Floats = NDArray[np.float64]

DEPTH = 3
NODES, LEAVES = 2**DEPTH - 1, 2**DEPTH


@dataclass(frozen=True)
class Tree:
    """A whole tree of `DEPTH`: node i asks whether feature `features[i]` is above `limits[i]` and goes on to 2i+1, or
    where it is to 2i+2; a node that asks nothing has the feature -1. Leaves from left to right."""

    features: tuple[int, ...]
    limits: tuple[float, ...]
    leaves: tuple[float, ...]


@dataclass(frozen=True)
class Forest:
    trees: tuple[Tree, ...]

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        asked = np.array([tree.features for tree in self.trees], np.int64)
        limits = np.where(asked < 0, np.inf, np.array([tree.limits for tree in self.trees], np.float64))
        return np.maximum(asked, 0), limits, np.array([tree.leaves for tree in self.trees], np.float64)

    def values(self, rows: Sequence[Sequence[float]] | Floats) -> Floats:
        """One number a row."""
        given = np.asarray(rows, np.float64)
        if not self.trees or not len(given):
            return np.zeros(len(given))
        asked, limits, leaves = self._numbers
        trees = np.arange(len(self.trees))[None, :]
        node = np.zeros((len(given), len(self.trees)), np.int64)
        for _ in range(DEPTH):
            above = given[np.arange(len(given))[:, None], asked[trees, node]] > limits[trees, node]
            node = 2 * node + 1 + above
        total: Floats = leaves[trees, node - NODES].sum(axis=1)
        return total


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

    families: Mapping[str, Family]
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
        """The time that is corrected: by the family's cost model, or the sum of a chain's kernels."""
        if plan.parts:
            return sum(one.us for part in plan.parts for one in self.expected([part]))
        return self.families[plan.config.family].cost(plan) / CLOCK_MHZ

    def features(self, plan: Plan, base_us: float) -> dict[str, float]:
        return features(plan, base_us * CLOCK_MHZ, self.families[plan.config.family].features(plan))

    def _of_family(self, family: str, plans: list[Plan]) -> list[Expected]:
        bases = [self.base_us(plan) for plan in plans]
        correction = self.correction(family)
        if correction is None or plans[0].target.generation.name != correction.generation:
            return [Expected(base, UNKNOWN) for base in bases]
        seen = [self.features(plan, base) for plan, base in zip(plans, bases, strict=True)]
        # A convolution with a pool behind it has other features than the chains that `unfused` was fitted to.
        if tuple(seen[0]) != correction.features:
            return [Expected(base, UNKNOWN) for base in bases]
        factors = np.exp(correction.forest.values([list(one.values()) for one in seen])).tolist()
        return [Expected(base * factor, correction.spread) for base, factor in zip(bases, factors, strict=True)]


@cache
def stored(family: str) -> Correction | None:
    """Read when it is first asked for: a lookup needs few."""
    path = resources.files("qconv.generator.expect") / "corrections" / f"{family}.json"
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
