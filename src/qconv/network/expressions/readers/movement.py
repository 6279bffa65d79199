"""Ops that only move elements: each changes the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.expression.index import flat, unflat
from qconv.network.expressions.lazy import Lazy, Reader, Shape


def reshaped(x: Lazy, shape: Shape) -> Lazy:
    return Lazy(shape, x.dtype, lambda indices: x.at(unflat(flat(indices, shape), x.shape)))


def to_shape_of_output(reader: Reader) -> Lazy:
    """Read an op that keeps the order of all elements: the shape of its output is known."""
    from qconv.network.graph.served import Unserved

    shape = reader.network.tensor(reader.layer.outputs[0]).extents
    if shape is None:
        raise Unserved("the shape of its output is not known")
    return reshaped(reader.x(), shape)


def transpose(reader: Reader) -> Lazy:
    x = reader.x()
    axes = tuple(reader.attribute("perm", range(len(x.shape))[::-1]))
    back = sorted(range(len(axes)), key=axes.__getitem__)
    shape = tuple(x.shape[axis] for axis in axes)
    return Lazy(shape, x.dtype, lambda indices: x.at(tuple(indices[at] for at in back)))


def swapped(x: Lazy) -> Lazy:
    """Return the transposed matrices of a tensor's last two axes."""
    shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return Lazy(shape, x.dtype, lambda indices: x.at((*indices[:-2], indices[-1], indices[-2])))


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "Flatten": to_shape_of_output,
    "Identity": to_shape_of_output,
    "Reshape": to_shape_of_output,
    "Squeeze": to_shape_of_output,
    "Transpose": transpose,
    "Unsqueeze": to_shape_of_output,
}
