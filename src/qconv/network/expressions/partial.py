"""Folds as tensors of their own, where one kernel cannot have them, or would be slow: a fold whose columns are not the
last axes of the output, and one of few rows of very many columns, which becomes partial folds and a fold of these.

Rows and columns are taken in the order in which they lie in memory, so that neighbouring threads read neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from qconv.expression.index import Axis, Index, unflat
from qconv.expression.node import Call, Node, Number, in_order
from qconv.network.expressions.kernel import Held, cut_along
from qconv.network.expressions.lazy import (
    Element,
    Folding,
    Lazy,
    Product,
    axes_for,
    indices_within,
    placed,
    rewritten,
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


def parted(lazy: Lazy, held: Callable[[str], Held], only_long: bool) -> Parted | None:
    """Return the first fold as a tensor of its own and the rest; None where there is none. `only_long`: only one that
    is slow. `held` returns how a tensor lies in memory."""
    axes = axes_for(lazy.shape)
    root = lazy.at(tuple(map(Index.of, axes)))
    for fold in _folds(root):
        rows = _rows(fold, axes)
        is_slow = _is_slow(fold, rows)
        if only_long and not is_slow:
            continue
        made = _in_order_of_memory(fold, held)
        made = _in_two(made, keeps_last=made is not fold) if is_slow else made
        if only_long and made is fold:
            continue  # of a prime number of columns
        rows = _by_steps(rows, _steps(made.of, held))
        whole = _finished(root, fold)
        stored = _replaced(whole, fold, made)
        return Parted(tensor_of(stored, stored.dtype, rows), partial(_rest, lazy, root, whole, rows))
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


def _finished(root: Node, fold: Folding) -> Node:
    """Return the functions of the fold and of numbers alone, such as a mean: they are computed once for a row."""
    readers: dict[Node, list[Node]] = {}
    for node in in_order(root):
        for argument in dict.fromkeys(node.arguments):
            readers.setdefault(argument, []).append(node)
    last: Node = fold
    while len(found := readers.get(last, [])) == 1 and _is_of_one(found[0], last):
        (last,) = found
    return last


def _is_of_one(node: Node, argument: Node) -> bool:
    return isinstance(node, Call) and all(each == argument or isinstance(each, Number) for each in node.arguments)


def _steps(root: Node, held: Callable[[str], Held]) -> dict[Axis, int]:
    """Return the distances in memory between neighbours along the axes, of the largest tensor that is read."""
    read = [node for node in in_order(root) if isinstance(node, Element)]
    if not read:
        return {}
    largest = max(read, key=lambda node: prod(held(node.tensor).shape))
    terms = held(largest.tensor).offset(largest.indices).terms
    return {atom: abs(times) for atom, times in terms if isinstance(atom, Axis)}


def _by_steps(axes: tuple[Axis, ...], steps: dict[Axis, int]) -> tuple[Axis, ...]:
    """Return the axes with the farthest neighbours first, where that is known of all."""
    return tuple(sorted(axes, key=lambda axis: -steps[axis])) if all(axis in steps for axis in axes) else axes


def _in_order_of_memory(fold: Folding, held: Callable[[str], Held]) -> Folding:
    """Return a fold whose last column is of neighbours in memory, if one of the columns is."""
    columns, of = cut_along(fold.columns, fold.of)
    steps = _steps(of, held)
    ordered = _by_steps(tuple(axis for axis in columns if axis.extent > 1), steps)
    is_ordered = ordered == tuple(axis for axis in columns if axis.extent > 1)
    return fold if is_ordered or steps[ordered[-1]] != 1 else Folding(fold.kind, of, ordered)


def _in_two(fold: Folding, keeps_last: bool) -> Folding:
    """Return a fold of folds of the columns, of which the inner ones are as long as there are outer ones, about.
    `keeps_last`: the last column is a row of the inner folds, because its elements are neighbours in memory."""
    folded = fold.columns[:-1] if keeps_last and _outer(fold.columns[:-1]) > 1 else fold.columns
    columns, outer = prod(axis.extent for axis in folded), _outer(folded)
    if outer == 1:
        return fold
    slow, fast = Axis("p0", outer), Axis("c0", columns // outer)
    whole = Index.of(slow) * fast.extent + Index.of(fast)
    places = dict(zip(folded, unflat(whole, [axis.extent for axis in folded]), strict=True))
    kept = [Axis("p1", axis.extent) for axis in fold.columns[len(folded) :]]
    places |= dict(zip(fold.columns[len(folded) :], map(Index.of, kept), strict=True))
    return Folding(fold.kind, Folding(fold.kind, placed(fold.of, places), (fast,)), (slow, *kept))


def _outer(columns: tuple[Axis, ...]) -> int:
    """Return the largest divisor of the number of columns up to its root."""
    count = prod(axis.extent for axis in columns)
    return next(each for each in range(int(count**0.5), 0, -1) if count % each == 0)


def _replaced(root: Node, old: Node, new: Node) -> Node:
    return rewritten(root, lambda node, arguments: new if node == old else with_arguments(node, arguments))


def _rest(lazy: Lazy, root: Node, whole: Node, rows: tuple[Axis, ...], name: str) -> Lazy:
    """Return the expression with a stored tensor in the place of a part."""
    read = Element(name, tuple(map(Index.of, rows)), whole.dtype)
    return tensor_of(_replaced(root, whole, read), lazy.dtype, axes_for(lazy.shape))
