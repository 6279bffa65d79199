"""Ops that join elements of tensors and constants: concatenation, padding, and elements chosen by their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from qconv.expression.function import FLOAT
from qconv.expression.index import Index, flat, unflat
from qconv.expression.node import Guard, Position, call
from qconv.network.expressions.guarding import guarded
from qconv.network.expressions.lazy import Array, Indices, Lazy, Reader, Shape, converted, number
from qconv.network.expressions.readers.movement import inside, with_axes
from qconv.network.graph.served import Unserved

# Pad's modes that repeat elements, named as in np.pad.
MODES = ("edge", "reflect", "wrap")


def concat(reader: Reader) -> Lazy:
    """Read a concatenation: the elements of an input, and where there are none, those of the next."""
    inputs = [reader.x(at) for at in range(len(reader.layer.inputs))]
    axis = int(reader.attribute("axis", 1)) % len(inputs[0].shape)
    parts, begin = [], 0
    for one in inputs:
        if one.elements:
            parts.append((one, begin))
        begin += one.shape[axis]
    shape = (*inputs[0].shape[:axis], begin, *inputs[0].shape[axis + 1 :])

    def at(indices: Indices) -> Any:
        made = _rolled(parts, axis, indices)
        if made is not None:
            return made
        made = number(0, inputs[0].dtype)
        for one, first in reversed(parts):
            own = (*indices[:axis], indices[axis] - first, *indices[axis + 1 :])
            made = guarded(one.at(own), [Guard(own[axis], one.shape[axis])], made)
        return made

    return Lazy(shape, inputs[0].dtype, at)


def _rolled(parts: Sequence[tuple[Lazy, int]], axis: int, indices: Indices) -> Any:
    """Return the element of a tensor that is joined again behind a cut, its end first: it has one index, which wraps.
    None for other parts."""
    if len(parts) != 2:
        return None
    (end, _), (begin, cut) = parts
    moved, extent = begin.shape[axis], cut + begin.shape[axis]

    def placed(one: Lazy, place: Index) -> Any:
        return one.at((*indices[:axis], place, *indices[axis + 1 :]))

    if placed(end, indices[axis] - extent) != placed(begin, indices[axis] - cut):
        return None
    return placed(end, (indices[axis] + moved) % extent - moved)


def pad(reader: Reader) -> Lazy:
    x = reader.x()
    rank = len(x.shape)
    given = reader.integers("pads", 1) or reader.integers("paddings", 1)
    axes = reader.integers("axes", 3) or tuple(range(rank))
    if given is None:
        raise Unserved("its pads are not given")
    count = len(axes)
    pads = {axis % rank: (given[at], given[at + count]) for at, axis in enumerate(axes)}
    mode = reader.attribute("mode", "constant")
    if mode == "constant":
        return padded(x, pads, _fill(reader, x.dtype))
    if mode not in MODES:
        raise Unserved(f"mode={mode}; the kernels pad by constant, {', '.join(MODES)}")
    return with_axes(x, {axis: _repeated(reader, x.shape[axis], *both, mode) for axis, both in pads.items()})


def _fill(reader: Reader, dtype: str) -> Any:
    """Return the value that Pad pads with."""
    known = reader.optional(2)
    if reader.has(2) and known is None:
        one = reader.x(2)
        return one.at((Index(),) * len(one.shape))
    return number(reader.attribute("value", 0) if known is None else known.reshape(-1)[0], dtype)


def padded(x: Lazy, pads: Mapping[int, tuple[int, int]], fill: Any) -> Lazy:
    """Return a tensor with elements of a value before and behind those of some axes. Negative pads cut elements off."""
    moved = with_axes(x, {axis: (x.shape[axis] + sum(both), _less(both[0])) for axis, both in pads.items()})

    def at(indices: Indices) -> Any:
        guards = [Guard(indices[axis] - before, x.shape[axis]) for axis, (before, _) in pads.items()]
        return guarded(moved.at(indices), guards, fill)

    return Lazy(moved.shape, x.dtype, at)


def _less(by: int) -> Callable[[Index], Index]:
    return lambda index: index - by


def _repeated(reader: Reader, extent: int, before: int, behind: int, mode: str) -> tuple[int, Callable[[Index], Index]]:
    """Return the padded extent of an axis, and the index of the element at each index of it."""
    kept = np.arange(extent)[max(-before, 0) : extent - max(-behind, 0)]
    if not kept.size:
        raise Unserved("its output has no elements")
    moved = np.pad(kept, (max(before, 0), max(behind, 0)), mode=mode)  # type: ignore[call-overload]
    return moved.size, reader.entries(moved)


def center_crop_pad(reader: Reader) -> Lazy:
    x = reader.x()
    wanted = reader.integers("shape", 1) or ()
    axes = reader.attribute("axes", range(len(x.shape)))
    pads = {}
    for axis, extent in zip(axes, wanted, strict=True):
        more = extent - x.shape[axis % len(x.shape)]
        # The half that is rounded down is in front.
        before = more // 2 if more >= 0 else -(-more // 2)
        pads[axis % len(x.shape)] = (before, more - before)
    return padded(x, pads, number(0, x.dtype))


def trilu(reader: Reader) -> Lazy:
    x = reader.x()
    moved = int(reader.constant(1, "diagonal").reshape(-1)[0]) if reader.has(1) else 0
    is_upper = bool(reader.attribute("upper", 1))

    def at(indices: Indices) -> Any:
        right = indices[-1] - indices[-2] - moved
        kept = right if is_upper else right * -1
        return guarded(x.at(indices), [Guard(kept, max(kept.high, 0) + 1)], number(0, x.dtype))

    return Lazy(x.shape, x.dtype, at)


def one_hot(reader: Reader) -> Lazy:
    """Read OneHot: an index that counts from the end is negative."""
    chosen, values = reader.x(0), reader.x(2)
    depth = int(reader.constant(1, "depth").reshape(-1)[0])
    axis = int(reader.attribute("axis", -1)) % (len(chosen.shape) + 1)
    off, on = (values.at((Index((), each),)) for each in range(2))
    shape = (*chosen.shape[:axis], depth, *chosen.shape[axis:])

    def at(indices: Indices) -> Any:
        index = chosen.at((*indices[:axis], *indices[axis + 1 :]))
        index = converted(index, "int64") if index.dtype == FLOAT else index
        place = converted(Position(indices[axis]), index.dtype)
        front, back = (call("equal", each, place) for each in (index, call("add", index, number(depth, index.dtype))))
        return call("select", call("bit_or", front, back), on, off)

    return Lazy(shape, values.dtype, at)


def scatter_elements(reader: Reader) -> Lazy:
    """Read ScatterElements: each element of the updates has the place of an element along an axis."""
    x, updates = reader.x(0), reader.x(2)
    axis = int(reader.attribute("axis", 0)) % len(x.shape)
    given = inside(reader.constant(1, "tensor of indices"), x.shape[axis])
    places: list[Array] = list(np.indices(given.shape, np.int64))
    places[axis] = given
    return _scattered(reader, x, updates, x.shape, np.asarray(np.ravel_multi_index(tuple(places), x.shape)), ())


def scatter_nd(reader: Reader) -> Lazy:
    """Read ScatterND: each slice of the updates has the place of an element along the first axes."""
    x, updates = reader.x(0), reader.x(2)
    given = reader.constant(1, "tensor of indices")
    placed = x.shape[: given.shape[-1]]
    places = tuple(inside(given[..., axis], extent) for axis, extent in enumerate(placed))
    at = np.asarray(np.ravel_multi_index(places, placed))
    return _scattered(reader, x, updates, placed, at, x.shape[len(placed) :])


def _scattered(reader: Reader, x: Lazy, updates: Lazy, placed: Shape, places: Array, rest: Shape) -> Lazy:
    """Return x with slices of the updates at places of its first axes. Of two at one place, the last remains."""
    if reader.attribute("reduction", "none") != "none":
        raise Unserved("its updates are combined with what is there; the kernels replace it")
    sources = np.full(prod(placed), -1, np.int32)
    sources[places.reshape(-1)] = np.arange(places.size)
    entry = reader.entries(sources)

    def at(indices: Indices) -> Any:
        source = entry(flat(indices[: len(placed)], placed))
        slices = (*unflat(source, places.shape), *indices[len(placed) :])
        return guarded(updates.at(slices), [Guard(source, places.size)], x.at(indices))

    return Lazy((*placed, *rest), x.dtype, at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "CenterCropPad": center_crop_pad,
    "Concat": concat,
    "OneHot": one_hot,
    "Pad": pad,
    **dict.fromkeys(("Scatter", "ScatterElements"), scatter_elements),
    "ScatterND": scatter_nd,
    "Trilu": trilu,
}
