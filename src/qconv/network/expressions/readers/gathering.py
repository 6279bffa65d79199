"""Elements chosen by indices. Constant ones change the index, as movement does; computed ones are places in a tensor in
memory.

ONNX Runtime refuses an index outside of its axis when it runs. Here no element outside of the tensor is read: which one
stands for it is left open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Self

from qconv.expression.function import INT
from qconv.expression.index import Index, flat
from qconv.expression.node import Node, Number, Position, call
from qconv.network.expressions.lazy import Indices, Lazy, Reader, Shape, number
from qconv.network.expressions.readers.movement import axis_of, inside


def _from_front(index: Node, extent: int) -> Node:
    """Return a computed index, which may count from the end, counted from the front."""
    is_behind = call("less", index, number(0, index.dtype))
    moved = call("select", is_behind, call("add", index, number(extent, index.dtype)), index)
    return moved if moved.dtype == INT else call("to_int32", moved)


def _scaled(index: Node, step: int) -> Node:
    return index if step == 1 else call("multiply", index, Number(step, INT))


@dataclass(frozen=True)
class _Chosen:
    """The elements of x with chosen indices along an axis. `shape` is that of the tensor of indices."""

    reader: Reader
    x: Lazy
    axis: int
    shape: Shape
    entry: Callable[[Index], Index] | None  # of constant indices

    @classmethod
    def of(cls, reader: Reader) -> Self:
        x, known = reader.x(), reader.optional(1)
        axis = axis_of(reader, len(x.shape))
        if known is None:
            return cls(reader, x, axis, reader.x(1).shape, None)
        return cls(reader, x, axis, known.shape, reader.entries(inside(known, x.shape[axis])))

    def element(self, before: Indices, own: Indices, behind: Indices) -> Node:
        """Return the element between other indices whose index is the element `own` of the tensor of indices."""
        if self.entry is not None:
            return self.x.at((*before, self.entry(flat(own, self.shape)), *behind))
        step, extent = prod(self.x.shape[self.axis + 1 :]), self.x.shape[self.axis]
        index = _scaled(_from_front(self.reader.x(1).at(own), extent), step)
        place = flat((*before, Index(), *behind), self.x.shape)
        return self.reader.placed()(index if place == Index() else call("add", index, Position(place)))


def gather(reader: Reader) -> Lazy:
    chosen = _Chosen.of(reader)
    axis, shape = chosen.axis, chosen.x.shape
    behind = axis + len(chosen.shape)

    def at(indices: Indices) -> Node:
        return chosen.element(indices[:axis], indices[axis:behind], indices[behind:])

    return Lazy((*shape[:axis], *chosen.shape, *shape[axis + 1 :]), chosen.x.dtype, at)


def gather_elements(reader: Reader) -> Lazy:
    chosen = _Chosen.of(reader)
    axis = chosen.axis
    return Lazy(
        chosen.shape,
        chosen.x.dtype,
        lambda indices: chosen.element(indices[:axis], indices, indices[axis + 1 :]),
    )


def gather_nd(reader: Reader) -> Lazy:
    x, batch = reader.x(), int(reader.attribute("batch_dims", 0))
    known = reader.optional(1)
    *shape, chosen = reader.x(1).shape if known is None else known.shape
    behind = batch + chosen
    y_shape = (*shape, *x.shape[behind:])
    if known is None:
        steps = [prod(x.shape[batch + each + 1 :]) for each in range(chosen)]

        def computed(indices: Indices) -> Node:
            place = flat((*indices[:batch], *(Index(),) * chosen, *indices[len(shape) :]), x.shape)
            index: Node = Position(place)
            for each, step in enumerate(steps):
                one = reader.x(1).at((*indices[: len(shape)], Index((), each)))
                index = call("add", index, _scaled(_from_front(one, x.shape[batch + each]), step))
            return reader.placed()(index)

        return Lazy(y_shape, x.dtype, computed)
    entries = [reader.entries(inside(known[..., each], x.shape[batch + each])) for each in range(chosen)]

    def at(indices: Indices) -> Node:
        place = flat(indices[: len(shape)], shape)
        return x.at((*indices[:batch], *(entry(place) for entry in entries), *indices[len(shape) :]))

    return Lazy(y_shape, x.dtype, at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
}
