"""Folds as tensors of their own, where one kernel cannot have them, or would be slow: a fold whose columns are not the
last axes of the output, and one of few rows of very many columns, which becomes partial folds and a fold of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from qconv.expression.index import Axis, Index
from qconv.expression.node import Node, in_order
from qconv.network.expressions.lazy import (
    Element,
    Folding,
    Lazy,
    Product,
    axes_for,
    indices_within,
    rewritten,
    substituted,
    tensor_of,
    with_arguments,
)

# A row of more columns is folded in parts where there are fewer rows than these.
LONG, FEW = 8192, 512
# Folds whose parts fold to the same.
IN_PARTS = ("sum", "product", "maximum", "minimum")


@dataclass(frozen=True)
class Parted:
    """A tensor that is to be stored, and what is left of the expression that reads it."""

    fold: Lazy
    rest: Callable[[str], Lazy]  # from the stored tensor's name


def parted(lazy: Lazy, only_long: bool) -> Parted | None:
    """Return the first fold as a tensor of its own and the rest; None where there is none. `only_long`: only one that
    is slow."""
    axes = axes_for(lazy.shape)
    root = lazy.at(tuple(map(Index.of, axes)))
    for fold in _folds(root):
        rows = _rows(fold, axes)
        made = _in_two(fold) if _is_slow(fold, rows) else fold
        if only_long and made is fold:
            continue
        return Parted(tensor_of(made, made.dtype, rows), partial(_rest, lazy, root, fold, rows))
    return None


def _folds(root: Node) -> Iterator[Folding]:
    """Yield the folds of values that need no other fold."""
    for node in in_order(root):
        if isinstance(node, Folding) and not any(isinstance(each, Folding | Product) for each in in_order(node.of)):
            yield node


def _axes(root: Node) -> set[Axis]:
    return {axis for node in in_order(root) for index in indices_within(node) for axis in index.axes}


def _rows(fold: Folding, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the axes that the fold depends on: those of the output in order, and columns of a fold around it."""
    used = _axes(fold.of) - set(fold.columns)
    outer = sorted(used - set(axes), key=lambda axis: axis.name)
    return (*(axis for axis in axes if axis in used), *outer)


def _is_slow(fold: Folding, rows: tuple[Axis, ...]) -> bool:
    columns = prod(axis.extent for axis in fold.columns)
    return fold.kind in IN_PARTS and columns > LONG and prod(axis.extent for axis in rows) < FEW


def _in_two(fold: Folding) -> Folding:
    """Return a fold of folds of the columns, of which the inner ones are as long as there are outer ones, about."""
    columns = prod(axis.extent for axis in fold.columns)
    outer = next(each for each in range(int(columns**0.5), 0, -1) if columns % each == 0)
    if outer == 1:
        return fold
    slow, fast = Axis("p0", outer), Axis("c0", columns // outer)
    flat = Index.of(slow) * fast.extent + Index.of(fast)
    places: dict[Axis, Index] = {}
    for axis in reversed(fold.columns):
        places[axis] = flat % axis.extent
        flat = flat // axis.extent
    inner = Folding(fold.kind, substituted(fold.of, lambda axis: places.get(axis, Index.of(axis))), (fast,))
    return Folding(fold.kind, inner, (slow,))


def _rest(lazy: Lazy, root: Node, fold: Folding, rows: tuple[Axis, ...], name: str) -> Lazy:
    """Return the expression with a stored tensor in the place of the fold."""

    def change(node: Node, arguments: tuple[Node, ...]) -> Node:
        if node == fold:
            return Element(name, tuple(map(Index.of, rows)), fold.dtype)
        return with_arguments(node, arguments)

    return tensor_of(rewritten(root, change), lazy.dtype, axes_for(lazy.shape))
