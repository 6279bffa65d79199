"""Sums of small regression trees as plain numbers, of many rows at a time: no dependency but NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
