"""The op `reduce`: for each row, folds of expressions over its columns, then an expression of these and of the
elements.

The order of a fold is part of the contract, so that no config changes a bit: lane `i` of LANES combines the columns i,
i + LANES, i + 2 LANES, ... in order, beginning with the fold's identity; then lane `i` takes lane i + LANES / 2, for i
below LANES / 2, and so on with half as many lanes, until one is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from qconv.dtypes import RANGES
from qconv.expression.function import FUNCTIONS
from qconv.expression.index import Axis
from qconv.expression.node import POSITIONS, Node, in_order, indices_of
from qconv.expression.problem import Expression, draw, options, stored
from qconv.op import Array, Op, Sample

MOST_LANES = 256
# The function that combines two elements; that of a position compares, and keeps the earlier one of equals.
COMBINES = {"sum": "add", "product": "multiply", "maximum": "maximum", "minimum": "minimum"}


@dataclass(frozen=True, eq=False)
class Reduce(Expression):
    """A reduction. The output has the axes `rows`, and `columns` as well if its last expression differs between
    columns."""

    op: ClassVar[str] = "reduce"
    axis_names: ClassVar[Mapping[str, str]] = {"rows": "r", "columns": "c"}

    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    def _check_root(self) -> None:
        super()._check_root()
        if not self.folds:
            raise ValueError("the expression has no fold such as sum_of(t0): a map computes it")
        if not self.columns:
            raise ValueError("columns is empty: a reduction combines the elements of at least one axis")

    @cached_property
    def row_count(self) -> int:
        return prod(self.rows)

    @cached_property
    def column_count(self) -> int:
        return prod(self.columns)

    @cached_property
    def lanes(self) -> int:
        return lanes_of(self.column_count)

    @cached_property
    def has_columns(self) -> bool:
        """True where the output has one element per column."""
        return varies(self.root, self.axes_of("columns"))

    @property
    def y_shape(self) -> tuple[int, ...]:
        return (*self.rows, *self.columns) if self.has_columns else self.rows


def lanes_of(columns: int) -> int:
    """Return the least power of two that holds the columns, up to MOST_LANES."""
    return min(MOST_LANES, 1 << (columns - 1).bit_length())


def varies(root: Node, columns: tuple[Axis, ...]) -> bool:
    """True where a value differs between the columns of a row. Folds do not."""
    found: dict[Node, bool] = {}
    for node in in_order(root):
        own = any(not index.axes.isdisjoint(columns) for index in indices_of(node))
        found[node] = hasattr(node, "kind") is False and (own or any(found[each] for each in node.arguments))
    return found[root]


def identity(kind: str, dtype: str) -> float | int:
    """Return the value with which a fold begins."""
    if kind in ("sum", "product"):
        return 0 if kind == "sum" else 1
    is_largest = kind in ("maximum", "argmax")
    if dtype == "float32":
        return -np.inf if is_largest else np.inf
    if dtype == "bool":
        return not is_largest
    return RANGES[dtype][0 if is_largest else 1]


def folded(kind: str, values: Array) -> Array:
    """Fold the last axis, in the order of the contract."""
    *rows, columns = values.shape
    lanes = lanes_of(columns)
    rounds = -(-columns // lanes)
    padded = np.full((*rows, rounds * lanes), identity(kind, str(values.dtype)), values.dtype)
    padded[..., :columns] = values
    if kind in POSITIONS:
        return _position(kind, padded, columns)
    combine = FUNCTIONS[COMBINES[kind]].numpy
    total = np.full((*rows, lanes), identity(kind, str(values.dtype)), values.dtype)
    for round_ in range(rounds):
        total = combine(total, padded[..., round_ * lanes : (round_ + 1) * lanes])
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = combine(total[..., :half], total[..., half:])
    return total[..., 0]


def _position(kind: str, padded: Array, columns: int) -> Array:
    """Return the first column of the largest or the least element. No column is after the last; a NaN is neither."""
    values = padded[..., :columns]
    ordered = np.where(values != values, identity(kind, str(values.dtype)), values)
    return np.asarray(ordered.argmax(-1) if kind == "argmax" else ordered.argmin(-1), np.int32)


def compute(problem: Reduce, drawn: Sample) -> tuple[Array, ...]:
    every = (*problem.rows, *problem.columns)

    def fold(kind: str, values: Array) -> Array:
        elements = np.broadcast_to(values, every).reshape(*problem.rows, problem.column_count)
        return folded(kind, elements).reshape(*problem.rows, *(1 for _ in problem.columns))

    values = problem.evaluation(drawn.arrays, fold=fold)(problem.root)
    if not problem.has_columns:
        values = np.broadcast_to(values, (*problem.rows, *(1 for _ in problem.columns))).reshape(problem.rows)
    return (stored(np.broadcast_to(values, problem.y_shape), problem.y_type),)


OP = Op(
    name="reduce",
    says="Sums, maxima, means, softmax and normalizations of rows.",
    problems=(Reduce,),
    read=Reduce.read,
    ask=Reduce.asked,
    options=options(
        Reduce,
        {"rows": "axes r0, r1, ... of rows.", "columns": "axes c0, c1, ... that are combined."},
    ),
    draw=draw,
    compute=compute,
)
