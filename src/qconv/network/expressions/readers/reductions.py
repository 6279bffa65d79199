"""Reductions over axes, softmax and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qconv.expression.index import Axis, Index
from qconv.network.expressions.lazy import Folding, Indices, Lazy, Reader


def columns_of(x: Lazy, axes: tuple[int, ...]) -> tuple[Axis, ...]:
    """Return axes of their own over which a tensor is folded."""
    return tuple(Axis(f"c{at}", x.shape[axis]) for at, axis in enumerate(axes))


def folded(
    kind: str, element: Callable[[Indices], Any], indices: Indices, axes: tuple[int, ...], columns: tuple[Axis, ...]
) -> Any:
    """Return the fold of elements over some axes, at an index of which these axes do not matter."""
    inside = list(indices)
    for axis, column in zip(axes, columns, strict=True):
        inside[axis] = Index.of(column)
    return Folding(kind, element(tuple(inside)), columns)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {}
