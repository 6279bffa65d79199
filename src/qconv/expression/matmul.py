"""The op `matmul`: sums of products of two expressions, then an expression of each sum.

A float32 sum is one chain: sum = fma(a, b, sum), from zero, over the elements of the axes `k` in order. It has the same
bits for every config. Integers wrap around, so that their order is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from qconv.arithmetic.fma import fma
from qconv.expression.function import FLOAT
from qconv.expression.index import Axis, Index, flat
from qconv.expression.node import Call, Fold, Load, Node, in_order, indices_of, replaced
from qconv.expression.problem import Expression, draw, options, stored
from qconv.op import Array, Op, Option, Sample, checked_size, quoted

# The name under which an epilogue reads the sums.
SUMS = "sums"
# Sums that the oracle holds at a time.
CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class MatMul(Expression):
    """Products of two matrices per index of `batch`: the left one has the axes `m` and `k`, the right one `n` and `k`.
    `order` names the axes of the contiguous output, the slowest first; without it they are those of batch, m and n."""

    op: ClassVar[str] = "matmul"
    axis_names: ClassVar[Mapping[str, str]] = {"batch": "b", "m": "m", "n": "n", "k": "k"}
    texts: ClassVar[tuple[str, ...]] = ("order",)

    batch: tuple[int, ...] = ()
    m: tuple[int, ...] = ()
    n: tuple[int, ...] = ()
    k: tuple[int, ...] = ()
    order: str = ""

    def __post_init__(self) -> None:
        axes = ",".join(axis.name for axis in self.kept)
        order = self.order.replace(" ", "")
        if sorted(order.split(",")) != sorted(axes.split(",")) and order:
            raise ValueError(f"order={quoted(order)} must name each axis of the output once: {axes}")
        object.__setattr__(self, "order", "" if order == axes else order)
        super().__post_init__()

    def _check_root(self) -> None:
        super()._check_root()
        checked_size("elements of k", self.depth, 1)
        folds = [fold for fold in self.folds if fold.kind == "sum" and _is_product(fold.of)]
        if len(self.folds) != 1 or not folds:
            found = ", ".join(f"{fold.kind}_of" for fold in self.folds) or "none"
            raise ValueError(f"the folds of a matmul are one sum_of(multiply(left, right)); the expression has {found}")
        for side, root, other in (("left", self.left, "n"), ("right", self.right, "m")):
            self._check_axes(f"the {side} factor", in_order(root), other)
        self._check_axes("what follows the sum", in_order(self.epilogue), "k")

    def _check_axes(self, what: str, nodes: tuple[Node, ...], other: str) -> None:
        strange = set(self.axes_of(other))
        for node in nodes:
            for index in indices_of(node):
                if names := sorted(axis.name for axis in index.axes & strange):
                    raise ValueError(f"{what} reads {names[0]}; it has no axes of {other}")

    @property
    def kept(self) -> tuple[Axis, ...]:
        """Return the axes of batch, m and n, in this order."""
        return (*self.axes_of("batch"), *self.axes_of("m"), *self.axes_of("n"))

    @property
    def y_axes(self) -> tuple[Axis, ...]:
        named = {axis.name: axis for axis in self.kept}
        return tuple(named[name] for name in self.order.split(",")) if self.order else self.kept

    @property
    def y_shape(self) -> tuple[int, ...]:
        return tuple(axis.extent for axis in self.y_axes)

    @property
    def y_at(self) -> Index:
        """Return the offset of an element in the output."""
        return flat((Index.of(axis) for axis in self.y_axes), self.y_shape)

    @property
    def fold(self) -> Fold:
        return self.folds[0]

    @property
    def left(self) -> Node:
        return self.fold.of.arguments[0]

    @property
    def right(self) -> Node:
        return self.fold.of.arguments[1]

    @property
    def epilogue(self) -> Node:
        """Return the expression of a sum, which is a load from SUMS."""
        at = flat((Index.of(axis) for axis in self.kept), (axis.extent for axis in self.kept))
        return replaced(self.root, lambda node: Load(SUMS, at, node.dtype) if isinstance(node, Fold) else None)

    @property
    def elements(self) -> int:
        """Return the number of elements of the output."""
        return prod((*self.batch, *self.m, *self.n))

    @property
    def depth(self) -> int:
        """Return the number of products of a sum."""
        return prod(self.k)

    @property
    def floats(self) -> str:
        return "float32" if self.fold.dtype == FLOAT else ""

    @property
    def operations(self) -> int:
        return 2 * self.elements * self.depth

    @property
    def extents(self) -> dict[str, int]:
        return {name: prod(getattr(self, name)) for name in self.axis_names}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (*super().kinds, self.order)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        order = given.get("order") or ""
        return super().of({**given, "order": order if isinstance(order, str) else ",".join(order)})


def _is_product(node: Node) -> bool:
    return isinstance(node, Call) and node.function == "multiply"


def sums(left: Array, right: Array) -> Array:
    """Return the sums of products over the last axis, of arrays of batches, rows and this axis."""
    total = np.zeros((*left.shape[:2], right.shape[1]), left.dtype)
    with np.errstate(all="ignore"):
        if left.dtype != FLOAT:
            return np.asarray(np.matmul(left, right.swapaxes(1, 2), out=total))
        for at in range(left.shape[2]):
            total = fma(left[:, :, None, at], right[:, None, :, at], total)
    return total


def _side(problem: MatMul, evaluation: Any, root: Node, name: str) -> Array:
    """Return a factor as an array of batches, rows and elements of k."""
    own = [prod(problem.batch), prod(getattr(problem, name)), problem.depth]
    extents = {axis: axis.extent for each in ("batch", name, "k") for axis in problem.axes_of(each)}
    values = evaluation(root)
    shape = [extents.get(axis, 1) for axis in problem.axes]
    return np.ascontiguousarray(np.broadcast_to(values, shape)).reshape(own)


def compute(problem: MatMul, drawn: Sample) -> tuple[Array, ...]:
    evaluation = problem.evaluation(drawn.arrays)
    left = _side(problem, evaluation, problem.left, "m")
    right = _side(problem, evaluation, problem.right, "n")
    total = np.empty((len(left), left.shape[1], right.shape[1]), left.dtype)
    rows = max(1, CHUNK // total.shape[2])
    batches = max(1, rows // total.shape[1])
    for batch in range(0, len(total), batches):
        of = slice(batch, batch + batches)
        for first in range(0, total.shape[1], rows):
            part = slice(first, first + rows)
            total[of, part] = sums(left[of, part], right[of])
    every = [axis.extent for axis in problem.kept]
    after = problem.evaluation(drawn.arrays, {SUMS: total.reshape(-1)})(problem.epilogue)
    values = np.broadcast_to(after, (*every, *(1 for _ in problem.k))).reshape(every)
    order = [problem.kept.index(axis) for axis in problem.y_axes]
    return (stored(values.transpose(order), problem.y_type),)


AXES = {
    "batch": "axes b0, b1, ... of both factors and of the output.",
    "m": "axes m0, m1, ... of the left factor.",
    "n": "axes n0, n1, ... of the right factor.",
    "k": "axes k0, k1, ... of the sums.",
}


OP = Op(
    name="matmul",
    says="Sums of products: matrices, batches of them, convolutions of floats.",
    problems=(MatMul,),
    read=MatMul.read,
    ask=MatMul.asked,
    options=(
        *options(MatMul, AXES),
        Option("order", "matmul: axes of the output, the slowest first, as in m0,b0,n0.", metavar="AXES"),
    ),
    draw=draw,
    compute=compute,
)
