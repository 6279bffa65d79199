"""Ops that only move elements: each changes the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from qconv.expression.index import Index, flat, unflat
from qconv.expression.node import Node
from qconv.network.expressions.lazy import Array, Indices, Lazy, Reader, Shape
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Unserved
from qconv.network.layers.movement import SHAPES


def reshaped(x: Lazy, shape: Shape) -> Lazy:
    return Lazy(shape, x.dtype, lambda indices: x.at(unflat(flat(indices, shape), x.shape)))


def with_axes(x: Lazy, changed: Mapping[int, tuple[int, Callable[[Index], Index]]]) -> Lazy:
    """Return a tensor with other axes in the place of some: each has a new extent, and maps its index to that of x."""
    shape = tuple(changed[axis][0] if axis in changed else extent for axis, extent in enumerate(x.shape))

    def at(indices: Indices) -> Node:
        return x.at(tuple(changed[axis][1](one) if axis in changed else one for axis, one in enumerate(indices)))

    return Lazy(shape, x.dtype, at)


def to_shape_of_output(reader: Reader) -> Lazy:
    """Read an op that keeps the order of all elements."""
    x = reader.x()
    shape = reader.network.tensor(reader.layer.outputs[0]).extents
    if shape is None:
        shape = SHAPES[reader.layer.op](Reading(reader.layer, reader.network))(x.shape)
    if prod(shape) != x.elements:
        raise Unserved(f"x has the shape {x.shape}, which cannot be seen as {shape}")
    return reshaped(x, shape)


def _each_of(axes: Sequence[int], rank: int) -> list[int]:
    return [int(axis) % rank for axis in axes]


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


def expand(reader: Reader) -> Lazy:
    x = reader.x()
    wanted = reader.integers("shape", 1) or ()
    try:
        shape = tuple(np.broadcast_shapes(x.shape, wanted))
    except ValueError:
        raise Unserved(f"x has the shape {x.shape}, which cannot be expanded to {wanted}") from None
    return Lazy(shape, x.dtype, x.expanded(shape))


def tile(reader: Reader) -> Lazy:
    x = reader.x()
    repeats = reader.integers("repeats", 1) or ()
    return with_axes(x, {at: (x.shape[at] * times, _wrapped(x.shape[at])) for at, times in enumerate(repeats)})


def _wrapped(extent: int) -> Callable[[Index], Index]:
    return lambda index: index % extent


def _every(start: int, step: int) -> Callable[[Index], Index]:
    return lambda index: index * step + start


def sliced(reader: Reader) -> Lazy:
    x = reader.x()
    starts, ends = reader.integers("starts", 1), reader.integers("ends", 2)
    if starts is None or ends is None:
        raise Unserved("its starts and ends are not given")
    axes = reader.integers("axes", 3) or tuple(range(len(starts)))
    steps = reader.integers("steps", 4) or (1,) * len(starts)
    changed = {}
    for axis, start, end, step in zip(_each_of(axes, len(x.shape)), starts, ends, steps, strict=True):
        kept = range(*slice(start, end, step).indices(x.shape[axis]))
        changed[axis] = (len(kept), _every(kept.start, kept.step))
    return with_axes(x, changed)


def split(reader: Reader) -> Lazy:
    """Read one output of a Split. `one_output_each` has made each a layer of its own."""
    x = reader.x()
    axis = axis_of(reader, len(x.shape))
    number, count = int(reader.attribute("output", 0)), int(reader.attribute("outputs", 1))
    equal = -(-x.shape[axis] // count)
    given = reader.integers("split", 1)
    widths = given or [min(equal, max(x.shape[axis] - at * equal, 0)) for at in range(count)]
    return with_axes(x, {axis: (widths[number], _every(sum(widths[:number]), 1))})


def _blocks(reader: Reader) -> tuple[Lazy, int, Shape, bool]:
    """Return x, the extent of a block, the shape of x, and whether the places in a block are slower than channels."""
    x = reader.x()
    if len(x.shape) != 4:
        raise Unserved(f"x has the shape {x.shape}; blocks of pixels are of 4 axes")
    return x, int(reader.attribute("blocksize")), x.shape, reader.attribute("mode", "DCR") == "DCR"


def depth_to_space(reader: Reader) -> Lazy:
    x, size, (n, c, h, w), is_slower = _blocks(reader)
    if c % size**2:
        raise Unserved(f"x has {c} channels, which is no multiple of blocksize={size} squared")
    depth = c // size**2

    def at(indices: Indices) -> Node:
        image, channel, row, column = indices
        place = row % size * size + column % size
        source = place * depth + channel if is_slower else channel * size**2 + place
        return x.at((image, source, row // size, column // size))

    return Lazy((n, depth, h * size, w * size), x.dtype, at)


def space_to_depth(reader: Reader) -> Lazy:
    x, size, (n, c, h, w), is_slower = _blocks(reader)
    if h % size or w % size:
        raise Unserved(f"x has {h} x {w} pixels, which are no multiples of blocksize={size}")

    def at(indices: Indices) -> Node:
        image, channel, row, column = indices
        place, source = (channel // c, channel % c) if is_slower else (channel % size**2, channel // size**2)
        return x.at((image, source, row * size + place // size, column * size + place % size))

    return Lazy((n, c * size**2, h // size, w // size), x.dtype, at)


def inside(indices: Array, extent: int) -> Array:
    """Return constant indices counted from the front."""
    if indices.size == 0:
        raise Unserved("its output has no elements")
    if indices.min() < -extent or indices.max() >= extent:
        raise Unserved(f"its indices are {indices.min()} to {indices.max()}; the axis has {extent} elements")
    return np.where(indices < 0, indices + extent, indices)


def axis_of(reader: Reader, rank: int) -> int:
    return int(reader.attribute("axis", 0)) % rank


def compress(reader: Reader) -> Lazy:
    x = reader.x()
    if "axis" not in reader.layer.attributes:
        x = reshaped(x, (x.elements,))
    axis = axis_of(reader, len(x.shape))
    kept = np.flatnonzero(reader.constant(1, "condition").reshape(-1)[: x.shape[axis]])
    return with_axes(x, {axis: (kept.size, reader.entries(inside(kept, x.shape[axis])))})


def reverse_sequence(reader: Reader) -> Lazy:
    x = reader.x()
    time, batch = int(reader.attribute("time_axis", 0)), int(reader.attribute("batch_axis", 1))
    steps = np.arange(x.shape[time])
    lengths = reader.constant(1, "tensor of lengths").reshape(-1, 1)
    entry = reader.entries(np.where(steps < lengths, lengths - 1 - steps, steps))

    def at(indices: Indices) -> Node:
        moved = list(indices)
        moved[time] = entry(flat((indices[batch], indices[time]), (x.shape[batch], x.shape[time])))
        return x.at(tuple(moved))

    return Lazy(x.shape, x.dtype, at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **dict.fromkeys(SHAPES, to_shape_of_output),
    "Compress": compress,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "ReverseSequence": reverse_sequence,
    "Slice": sliced,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
    "Transpose": transpose,
}
