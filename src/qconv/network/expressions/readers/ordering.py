"""The order of the elements of rows, for TopK: the rank of each, and the place of each rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from qconv.expression.function import FLOAT, INT
from qconv.expression.index import Axis, Index
from qconv.expression.node import Node, Number, Position, call
from qconv.network.expressions.lazy import Folding, Indices, Lazy, Reader, number


def _ordered(node: Node) -> Node:
    """Return what is compared of an element: a NaN has the place of infinity."""
    return call("select", call("is_nan", node), number(inf, FLOAT), node) if node.dtype == FLOAT else node


def _beside(indices: Indices, axis: int, index: Index) -> Indices:
    return (*indices[:axis], index, *indices[axis + 1 :])


def ranks(reader: Reader) -> Lazy:
    """Read the number of elements of its row that come before each element. Of equals, the first comes first."""
    x, axis = reader.x(), int(reader.attribute("axis"))
    column = Axis("c0", x.shape[axis])

    def at(indices: Indices) -> Node:
        own, other = (_ordered(x.at(_beside(indices, axis, each))) for each in (indices[axis], Index.of(column)))
        low, high = (own, other) if reader.attribute("largest") else (other, own)
        is_earlier = call("less", Position(Index.of(column)), Position(indices[axis]))
        before = call("select", is_earlier, call("less_or_equal", low, high), call("less", low, high))
        return Folding("sum", call("to_int32", before), (column,))

    return Lazy(x.shape, "int32", at)


def places(reader: Reader) -> Lazy:
    """Read the place in its row of the element of each rank below k."""
    x, axis = reader.x(), int(reader.attribute("axis"))
    column = Axis("c0", x.shape[axis])

    def at(indices: Indices) -> Node:
        rank = x.at(_beside(indices, axis, Index.of(column)))
        is_it = call("equal", rank, Position(indices[axis]))
        place = call("select", is_it, Position(Index.of(column)), Number(0, INT))
        return call("to_int64", Folding("sum", place, (column,)))

    return Lazy((*x.shape[:axis], int(reader.attribute("k")), *x.shape[axis + 1 :]), "int64", at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {"TopKIndices": places, "TopKRanks": ranks}
