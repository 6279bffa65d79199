"""Gradient boosting for the trees of `qconv.generator.expect`: each small tree is fitted to the remaining
residual and added with a small weight. It is deterministic: the same rows give the same trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qconv.generator.expect import DEPTH, LEAVES, NODES, Floats, Forest, Tree

BINS = 24  # bins per feature
DIGITS = 3  # decimal digits of the stored numbers
LEAST_GAIN = 1e-9
# Processors add in other orders. Splits whose gains differ by less than this part are equal, and the first is taken.
EQUAL = 1e-9


@dataclass(frozen=True)
class Boosting:
    """`shared` weights the error that all rows of a problem have in common, relative to the error by which they differ.
    The latter decides which config is chosen, the former the expected time."""

    trees: int = 200
    rate: float = 0.08
    least_weight: float = 4.0  # least weight of the rows of a leaf
    ridge: float = 4.0  # rows of value 0 added to every leaf
    shared: float = 0.6


def fit(rows: Floats, wanted: Floats, weights: Floats, problems: NDArray[np.int64], how: Boosting) -> Forest:
    """Return trees whose sum approximates `wanted`; `problems` says which rows belong together."""
    edges = [_edges(column) for column in rows.T]
    bins = np.stack([np.searchsorted(edge, column) for edge, column in zip(edges, rows.T, strict=True)], axis=1)
    histograms = _Histograms(bins, weights)
    total = np.maximum(np.bincount(problems, weights), 1e-9)
    trees: list[Tree] = []
    left = wanted.copy()
    for _ in range(how.trees):
        common = (np.bincount(problems, weights * left) / total)[problems]
        tree, at = _tree(histograms, edges, left - (1 - how.shared) * common, how)
        if all(feature < 0 for feature in tree.features):
            break
        trees.append(tree)
        left = left - np.array(tree.leaves)[at]
    return Forest(tuple(trees))


class _Histograms:
    """Sums of rows by node of a level, feature and bin, of all nodes at once: many small sums take longer."""

    def __init__(self, bins: NDArray[np.int64], weights: Floats) -> None:
        self.bins, self.weights = bins, weights
        self.features = bins.shape[1]
        self._row = self.features * (BINS + 1)
        self._cells = bins + (BINS + 1) * np.arange(self.features)
        self._weights = self.of_cells(weights)

    def of_cells(self, values: Floats) -> Floats:
        return np.repeat(values, self.features)

    def of(self, node: NDArray[np.int64], nodes: int, values: Floats) -> tuple[Floats, Floats]:
        """Return the weight of the rows up to each bin, and the sum of their values."""
        cells = (self._cells + self._row * node[:, None]).ravel()
        weight, summed = (
            np.bincount(cells, of_each, self._row * nodes).reshape(nodes, self.features, BINS + 1).cumsum(axis=2)
            for of_each in (self._weights, values)
        )
        return weight, summed


def _edges(column: Floats) -> Floats:
    """Return edges between neighbouring values that occur; if there are many, the quantiles."""
    values = np.unique(column)
    if len(values) > BINS:
        values = np.unique(np.quantile(column, np.linspace(0, 1, BINS)))
    return np.unique([float(f"{middle:.{DIGITS}g}") for middle in (values[1:] + values[:-1]) / 2])


def _tree(
    histograms: _Histograms, edges: list[Floats], wanted: Floats, how: Boosting
) -> tuple[Tree, NDArray[np.int64]]:
    """Return a tree, and the leaf of each row."""
    features, limits = [-1] * NODES, [0.0] * NODES
    values = histograms.of_cells(histograms.weights * wanted)
    node = np.zeros(len(wanted), np.int64)
    for level in range(DEPTH):
        feature, last = _splits(*histograms.of(node, 2**level, values), how)
        first = 2**level - 1
        for number in np.flatnonzero(feature >= 0):
            features[first + number] = int(feature[number])
            limits[first + number] = float(edges[feature[number]][last[number]])
        above = histograms.bins[np.arange(len(node)), feature[node]] > last[node]
        node = 2 * node + (above & (feature[node] >= 0))
    weight = np.bincount(node, histograms.weights, LEAVES)
    means = np.bincount(node, histograms.weights * wanted, LEAVES) / (weight + how.ridge)
    leaves = tuple(float(f"{how.rate * mean:.{DIGITS}g}") for mean in means)
    return Tree(tuple(features), tuple(limits), leaves), node


def _splits(weight: Floats, summed: Floats, how: Boosting) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the feature of each node, and its last bin below the split, that explain the most error; -1: none."""
    other, rest = weight[..., -1:] - weight, summed[..., -1:] - summed
    gain = (
        summed**2 / (weight + how.ridge)
        + rest**2 / (other + how.ridge)
        - summed[..., -1:] ** 2 / (weight[..., -1:] + how.ridge)
    )
    gain[(weight < how.least_weight) | (other < how.least_weight)] = 0.0
    flat = gain.reshape(len(gain), -1)
    most = flat.max(axis=1)
    best = np.argmax(flat >= (1 - EQUAL) * most[:, None], axis=1)
    return np.where(most > LEAST_GAIN, best // (BINS + 1), -1), best % (BINS + 1)
