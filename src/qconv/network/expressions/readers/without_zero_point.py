"""Zero points of the run, subtracted behind a product of integers that was computed without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.expression.index import Index
from qconv.expression.node import Node, call
from qconv.network.expressions.lazy import Indices, Lazy, Reader
from qconv.network.graph.served import Unserved


def without_zero_point(reader: Reader) -> Lazy:
    """Read sums of products minus a zero point times the sums of the weights. Images have the channels after N, and
    `rows` and `columns` say which of the weights' sums a pixel has; a matrix has its outputs last."""
    sums, zero, weights = (reader.x(number) for number in range(3))
    of_zero = _zero_point(sums, zero, int(reader.attribute("axes")))
    rows, columns = (reader.entries(reader.attribute(name)) for name in ("rows", "columns"))

    def at(indices: Indices) -> Node:
        pixel, output = (indices[2:], indices[1]) if reader.attribute("axes") else ((), indices[-1])
        row, column = (*(Index(),) * (2 - len(pixel)), *pixel)
        moved = call("multiply", of_zero(indices), weights.at((rows(row), columns(column), output)))
        return call("subtract", sums.at(indices), moved)

    return Lazy(sums.shape, "int32", at)


def _zero_point(sums: Lazy, zero: Lazy, axes: int) -> Callable[[Indices], Node]:
    """Return the zero point of an element: one for the tensor, or one for each row of a matrix or of all of them."""
    if zero.elements == 1:
        return lambda indices: zero.at((Index(),) * len(zero.shape))
    if not axes and zero.shape == sums.shape[-2:-1]:
        return lambda indices: zero.at((indices[-2],))
    if not axes and zero.shape == (*sums.shape[:-1], 1):
        return lambda indices: zero.at((*indices[:-1], Index()))
    raise Unserved(f"its zero points have the shape {zero.shape}; the kernels have one, or one for each row")


READERS: Mapping[str, Callable[[Reader], Lazy]] = {"WithoutZeroPoint": without_zero_point}
