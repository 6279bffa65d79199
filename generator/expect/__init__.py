"""The expected time of a plan: its family's cost model, corrected by a sum of small regression trees that are fitted to
the errors of the model on one generation of GPUs, and the spread of what remains.

bench/correct.py writes the files in `corrections`, one per family. Evaluation needs NumPy only.
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
from qconv.generator.families import Family
from qconv.generator.plan import Plan

Floats = NDArray[np.float64]

DEPTH = 3
NODES, LEAVES = 2**DEPTH - 1, 2**DEPTH


@dataclass(frozen=True)
class Tree:
    """A complete binary tree of `DEPTH` levels. Node i goes to node 2i+1, or to 2i+2 where feature `features[i]` is
    above `limits[i]`; a node without a test has the feature -1. Leaves are ordered from left to right."""

    features: tuple[int, ...]
    limits: tuple[float, ...]
    leaves: tuple[float, ...]


@dataclass(frozen=True)
class Forest:
    trees: tuple[Tree, ...]

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        tested = np.array([tree.features for tree in self.trees], np.int64)
        limits = np.where(tested < 0, np.inf, np.array([tree.limits for tree in self.trees], np.float64))
        return np.maximum(tested, 0), limits, np.array([tree.leaves for tree in self.trees], np.float64)

    def values(self, rows: Sequence[Sequence[float]] | Floats) -> Floats:
        """Return the sum of the trees, one number per row."""
        given = np.asarray(rows, np.float64)
        if not self.trees or not len(given):
            return np.zeros(len(given))
        tested, limits, leaves = self._numbers
        trees = np.arange(len(self.trees))[None, :]
        node = np.zeros((len(given), len(self.trees)), np.int64)
        for _ in range(DEPTH):
            above = given[np.arange(len(given))[:, None], tested[trees, node]] > limits[trees, node]
            node = 2 * node + 1 + above
        total: Floats = leaves[trees, node - NODES].sum(axis=1)
        return total


# Spread (of the logarithm of a time) where no measurement tells it.
UNKNOWN = 0.4


@dataclass(frozen=True)
class Correction:
    """The error of one family's cost model on one generation of GPUs. `spread` is the root mean square of the remaining
    error, in the logarithm of the time, on networks that the trees were not fitted to."""

    generation: str
    spread: float
    features: tuple[str, ...]  # names
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
    """The cost models of all families and their corrections, which `correction` returns by a family's name."""

    families: Mapping[str, Family]
    correction: Callable[[str], Correction | None]

    def expected(self, plans: Sequence[Plan]) -> list[Expected]:
        """Return the expected times in the order of the plans. Without a correction for a GPU's generation, these are
        the cost models' predictions."""
        found: dict[int, Expected] = {}
        families: dict[str, list[int]] = {}
        for number, plan in enumerate(plans):
            families.setdefault(plan.config.family, []).append(number)
        for family, numbers in families.items():
            own = [plans[number] for number in numbers]
            found |= dict(zip(numbers, self._of_family(family, own), strict=True))
        return [found[number] for number in range(len(plans))]

    def base_us(self, plan: Plan) -> float:
        """Return the time before its correction: the cost model's, or for an unfused chain the sum of its kernels'
        times."""
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
        rows = [self.features(plan, base) for plan, base in zip(plans, bases, strict=True)]
        # `unfused` is fitted to chains. A convolution followed by a pool has other features.
        if tuple(rows[0]) != correction.features:
            return [Expected(base, UNKNOWN) for base in bases]
        factors = np.exp(correction.forest.values([list(one.values()) for one in rows])).tolist()
        return [Expected(base * factor, correction.spread) for base, factor in zip(bases, factors, strict=True)]


@cache
def stored(family: str) -> Correction | None:
    """Return the shipped correction of a family. Each file is read on first use, because a lookup needs few."""
    path = resources.files("qconv.generator.expect") / "corrections" / f"{family}.json"
    return read(path.read_text()) if path.is_file() else None


def read(text: str) -> Correction:
    """Parse the text of `written`."""
    document = json.loads(text)
    trees = tuple(Tree(tuple(tested), tuple(limits), tuple(leaves)) for tested, limits, leaves in document["trees"])
    return Correction(document["generation"], document["spread"], tuple(document["features"]), Forest(trees))


def written(correction: Correction) -> str:
    """Format a correction for review: a head, then one tree per line, as its nodes' feature numbers and limits and its
    leaves."""
    head = {"generation": correction.generation, "spread": correction.spread, "features": correction.features}
    trees = (
        json.dumps([tree.features, tree.limits, tree.leaves], separators=(",", ":")) for tree in correction.forest.trees
    )
    return json.dumps(head)[:-1] + ', "trees": [\n' + ",\n".join(trees) + "\n]}\n"
