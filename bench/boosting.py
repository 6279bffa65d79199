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
    binned = np.stack(
        [np.searchsorted(edge, column) for edge, column in zip(edges, rows.T, strict=True)], axis=1
    ).astype(np.int64)
    total = np.maximum(np.bincount(problems, weights), 1e-9)
    trees: list[Tree] = []
    left = wanted.copy()
    for _ in range(how.trees):
        common = (np.bincount(problems, weights * left) / total)[problems]
        tree, at = _tree(binned, edges, left - (1 - how.shared) * common, weights, how)
        if all(feature < 0 for feature in tree.features):
            break
        trees.append(tree)
        left = left - np.array(tree.leaves)[at]
    return Forest(tuple(trees))


def _edges(column: Floats) -> Floats:
    """Return edges between neighbouring values that occur; if there are many, the quantiles."""
    values = np.unique(column)
    if len(values) > BINS:
        values = np.unique(np.quantile(column, np.linspace(0, 1, BINS)))
    return np.unique([float(f"{middle:.{DIGITS}g}") for middle in (values[1:] + values[:-1]) / 2])


def _tree(
    binned: NDArray[np.int64], edges: list[Floats], wanted: Floats, weights: Floats, how: Boosting
) -> tuple[Tree, NDArray[np.int64]]:
    """Return a tree, and the leaf of each row."""
    features, limits = [-1] * NODES, [0.0] * NODES
    node = np.zeros(len(binned), np.int64)
    for level in range(DEPTH):
        for number in range(2**level - 1, 2 ** (level + 1) - 1):
            own = np.flatnonzero(node == number)
            above = np.zeros(len(own), np.int64)
            if (split := _split(binned[own], wanted[own], weights[own], how)) is not None:
                features[number], at = split
                limits[number] = float(edges[split[0]][at])
                above = (binned[own, split[0]] > at).astype(np.int64)
            node[own] = 2 * number + 1 + above
    leaf = node - NODES
    weight = np.bincount(leaf, weights, LEAVES)
    means = np.bincount(leaf, weights * wanted, LEAVES) / (weight + how.ridge)
    leaves = tuple(float(f"{how.rate * mean:.{DIGITS}g}") for mean in means)
    return Tree(tuple(features), tuple(limits), leaves), leaf


def _split(binned: NDArray[np.int64], wanted: Floats, weights: Floats, how: Boosting) -> tuple[int, int] | None:
    """Return the feature, and its last bin below the split, that explain the most error."""
    count = binned.shape[1]
    if weights.sum() < 2 * how.least_weight:
        return None
    width = BINS + 1
    flat = (binned + width * np.arange(count)).ravel()
    weight = np.bincount(flat, np.repeat(weights, count), width * count).reshape(count, width).cumsum(axis=1)
    summed = np.bincount(flat, np.repeat(weights * wanted, count), width * count).reshape(count, width).cumsum(axis=1)
    other, rest = weight[:, -1:] - weight, summed[:, -1:] - summed
    gain = (
        summed**2 / (weight + how.ridge)
        + rest**2 / (other + how.ridge)
        - summed[:, -1:] ** 2 / (weight[:, -1:] + how.ridge)
    )
    gain[(weight < how.least_weight) | (other < how.least_weight)] = 0.0
    most = gain.max()
    if most <= LEAST_GAIN:
        return None
    best = int(np.argmax(gain >= (1 - EQUAL) * most))
    return best // width, best % width
