"""Resize and Upsample: which elements each output reads along an axis, and with which weights, are constants.

The elements of an output are summed in the order of their places, each times the product of its weights, the last axis'
first. Few are summed one after the other, as a map; many are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import floor, prod

import numpy as np

from qconv.expression.function import FLOAT
from qconv.expression.index import Axis, Index
from qconv.expression.node import Guard, Node, call
from qconv.network.expressions.guarding import guarded
from qconv.network.expressions.lazy import Array, Folding, Indices, Lazy, Reader, converted, number
from qconv.network.graph.served import Unserved

# Elements and weights of an output that are read one after the other.
FEW = 16
F = np.float32


@dataclass(frozen=True)
class Along:
    """A resized axis. `begin` and `end` are the cropped part, in fractions of the axis."""

    extent: int
    made: int
    scale: np.float32
    begin: np.float32
    end: np.float32

    @property
    def is_same(self) -> bool:
        return self.extent == self.made and self.scale == 1


def _half_pixel(at: Array, axis: Along) -> Array:
    return (at + F(0.5)) / axis.scale - F(0.5)


def _pytorch_half_pixel(at: Array, axis: Along) -> Array:
    return _half_pixel(at, axis) if axis.made > 1 else np.zeros_like(at)


def _half_pixel_symmetric(at: Array, axis: Along) -> Array:
    adjustment = F(axis.made) / (axis.scale * F(axis.extent))
    offset = F(axis.extent) / F(2) * (F(1) - adjustment)
    return np.float64(offset) + (at.astype(np.float64) + 0.5) / np.float64(axis.scale) - 0.5


def _align_corners(at: Array, axis: Along) -> Array:
    return np.zeros_like(at) if axis.made == 1 else at * F(axis.extent - 1) / F(axis.made - 1)


def _cropped(at: Array, axis: Along) -> Array:
    last = F(axis.extent - 1)
    if axis.made == 1:
        return np.full_like(at, F(0.5) * (axis.begin + axis.end) * last)
    return axis.begin * last + at * (axis.end - axis.begin) * last / F(axis.made - 1)


# The place in x of an index of the output, by coordinate_transformation_mode.
PLACES: Mapping[str, Callable[[Array, Along], Array]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda at, axis: at / axis.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _cropped,
    "tf_half_pixel_for_nn": lambda at, axis: (at + F(0.5)) / axis.scale,
}


def _away(place: Array) -> Array:
    """Round half away from zero."""
    return np.asarray(np.trunc(place + np.copysign(F(0.5), place)))


# The nearest element of a place, by nearest_mode. `simple` is that of versions without the attribute.
NEAREST: Mapping[str, Callable[[Array, Along], Array]] = {
    "ceil": lambda place, axis: np.ceil(place),
    "floor": lambda place, axis: np.floor(place),
    "round_prefer_ceil": lambda place, axis: _away(place),
    "round_prefer_floor": lambda place, axis: np.where(
        place == np.trunc(place) + F(0.5), np.floor(place), _away(place)
    ),
    "simple": lambda place, axis: np.ceil(place) if axis.scale < 1 else np.trunc(place),
}


@dataclass(frozen=True)
class Taps:
    """The elements of x that each output reads along an axis, and their weights: of the shape (outputs, taps)."""

    indices: Array
    weights: Array


def _linear(places: Array, axis: Along) -> Taps:
    place = np.clip(places, F(0), F(axis.extent - 1))
    first = place.astype(np.int64)
    second = np.minimum(first + 1, axis.extent - 1)
    of_first, of_second = np.abs(place - second.astype(F)), np.abs(place - first.astype(F))
    both = first == second
    weights = [np.where(both, F(0.5), each) for each in (of_first, of_second)]
    return Taps(np.stack([first, second], 1), np.stack(weights, 1))


def _cubic(places: Array, axis: Along, a: np.float32, excludes: bool) -> Taps:
    whole = np.floor(places)
    s = (places - whole).astype(F)
    one, two = F(1), F(2)
    weights = np.stack(
        [
            ((a * (s + one) - F(5) * a) * (s + one) + F(8) * a) * (s + one) - F(4) * a,
            ((a + two) * s - (a + F(3))) * s * s + one,
            ((a + two) * (one - s) - (a + F(3))) * (one - s) * (one - s) + one,
            ((a * (two - s) - F(5) * a) * (two - s) + F(8) * a) * (two - s) - F(4) * a,
        ],
        1,
    )
    indices = whole.astype(np.int64)[:, None] + np.arange(-1, 3)
    if excludes:
        weights = np.where((indices >= 0) & (indices < axis.extent), weights, F(0))
        weights = weights / weights.sum(1, dtype=F, keepdims=True)
    return Taps(np.clip(indices, 0, axis.extent - 1), weights)


@dataclass(frozen=True)
class Filter:
    """The weight of an element by its distance, which is zero from `reach` on."""

    reach: int
    weight: Callable[[Array], Array]


TENT = Filter(1, lambda distance: np.maximum(F(1) - distance, F(0)))


def _cubic_weight(distance: Array, a: np.float32) -> Array:
    near = ((a + F(2)) * distance - (a + F(3))) * distance * distance + F(1)
    far = (((distance - F(5)) * distance + F(8)) * distance - F(4)) * a
    return np.where(distance < 1, near, np.where(distance < 2, far, F(0)))


def _smooth(places: Array, axis: Along, of: Filter, excludes: bool) -> Taps:
    """Return the taps of a filter that is as wide as an output is in x, where the axis becomes shorter. What is outside
    counts for the element at the border, unless it is excluded."""
    step = F(1) / axis.scale if axis.scale < 1 else F(1)
    center, reach = places + F(0.5), F(of.reach) * step
    first, end = np.floor(center - reach + F(0.5)), np.floor(center + reach + F(0.5))
    indices = first[:, None] + np.arange((end - first).max(), dtype=F)
    weights = of.weight(np.abs((indices - center[:, None] + F(0.5)) / step))
    is_one = indices < end[:, None]
    if excludes:
        is_one = is_one & (indices >= 0) & (indices < axis.extent)
    weights = np.where(is_one, weights, F(0))
    total = weights.sum(1, dtype=F, keepdims=True)
    inside = np.clip(indices, 0, axis.extent - 1).astype(np.int64)
    return Taps(inside, (weights / np.where(total == 0, F(1), total)).astype(F))


def _linear_way(a: np.float32, excludes: bool, is_smooth: bool) -> Callable[[Array, Along], Taps]:
    return (lambda places, axis: _smooth(places, axis, TENT, excludes)) if is_smooth else _linear


def _cubic_way(a: np.float32, excludes: bool, is_smooth: bool) -> Callable[[Array, Along], Taps]:
    if not is_smooth:
        return lambda places, axis: _cubic(places, axis, a, excludes)
    wave = Filter(2, lambda distance: _cubic_weight(distance, a))
    return lambda places, axis: _smooth(places, axis, wave, excludes)


# The taps of places along an axis, by the modes that weigh elements.
TAPS: Mapping[str, Callable[[np.float32, bool, bool], Callable[[Array, Along], Taps]]] = {
    "cubic": _cubic_way,
    "linear": _linear_way,
}


def resize(reader: Reader) -> Lazy:
    x = reader.x()
    axes = _axes_of(reader, x)
    is_old = _is_old(reader)
    mode = reader.attribute("mode", "nearest").removeprefix("bi")
    is_smooth = bool(reader.attribute("antialias", 0))
    if is_smooth and x.computed != FLOAT:
        raise Unserved(f"antialias=1 of {x.dtype}; the kernels smooth floats")
    excludes = bool(reader.attribute("exclude_outside", 0))
    named = "asymmetric" if is_old else reader.attribute("coordinate_transformation_mode", "half_pixel")
    if named not in PLACES:
        raise Unserved(f"coordinate_transformation_mode={named}; the kernels have {', '.join(PLACES)}")
    places = {at: _places(named, axis) for at, axis in sorted(axes.items()) if not axis.is_same}
    shape = tuple(axes[at].made if at in axes else extent for at, extent in enumerate(x.shape))
    if mode == "nearest":
        nearest = NEAREST["simple" if is_old else reader.attribute("nearest_mode", "round_prefer_floor")]
        made = _picked(reader, x, shape, {at: nearest(place, axes[at]) for at, place in places.items()})
    elif mode in TAPS:
        a = F(reader.attribute("cubic_coeff_a", -0.75))
        way = TAPS[mode](a, excludes, is_smooth)
        made = _weighted(reader, x, shape, {at: way(place, axes[at]) for at, place in places.items()})
    else:
        raise Unserved(f"mode={mode}; the kernels have nearest, linear and cubic")
    if named != "tf_crop_and_resize":
        return made
    return _filled(reader, made, {at: (place, axes[at].extent) for at, place in places.items()})


def _places(named: str, axis: Along) -> Array:
    return np.asarray(PLACES[named](np.arange(axis.made, dtype=F), axis), F)


def _is_old(reader: Reader) -> bool:
    """True for Upsample and the first version of Resize, which have two inputs and no attributes."""
    return reader.layer.op == "Upsample" or len(reader.layer.inputs) == 2


def _axes_of(reader: Reader, x: Lazy) -> dict[int, Along]:
    """Return the resized axes of x."""
    rank = len(x.shape)
    at = 1 if _is_old(reader) else 2
    axes = [int(axis) % rank for axis in reader.attribute("axes", range(rank))]
    extents = [x.shape[axis] for axis in axes]
    given = reader.attribute("scales")
    if given is None and _is_given(reader, at):
        given = reader.constant(at, "tensor of scales").reshape(-1)
    if given is None:
        made, scales = _sized(reader, extents)
    else:
        # ONNX Runtime makes a cropped part as large as the whole.
        scales = [F(scale) for scale in given]
        made = [floor(F(extent) * scale) for extent, scale in zip(extents, scales, strict=True)]
    begins, ends = _cropping(reader, len(axes))
    return {
        axis: Along(x.shape[axis], extent, scale, F(begin), F(end))
        for axis, extent, scale, begin, end in zip(axes, made, scales, begins, ends, strict=True)
    }


def _cropping(reader: Reader, count: int) -> tuple[Array, Array]:
    """Return the begins and the ends of the resized part."""
    if reader.attribute("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return np.zeros(count, F), np.ones(count, F)
    roi = reader.constant(1, "roi").reshape(-1).astype(F)
    if roi.size != 2 * count:
        raise Unserved(f"its roi has {roi.size} numbers; it needs the begin and the end of {count} axes")
    return roi[:count], roi[count:]


def _is_given(reader: Reader, number_: int) -> bool:
    """True where an input is given, and not the empty tensor that stands for one that is not."""
    if not reader.layer.inputs[number_ : number_ + 1] or not reader.layer.inputs[number_]:
        return False
    array = reader.optional(number_)
    return array is None or array.size > 0


def _sized(reader: Reader, extents: Sequence[int]) -> tuple[list[int], list[np.float32]]:
    """Return the new extents and the scales, where the sizes are given."""
    sizes = [int(size) for size in reader.constant(3, "sizes").reshape(-1)]
    scales = [F(size) / F(extent) for size, extent in zip(sizes, extents, strict=True)]
    policy = reader.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, scales
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [floor(scale * F(extent) + F(0.5)) for extent in extents], [scale] * len(extents)


def _picked(reader: Reader, x: Lazy, shape: tuple[int, ...], nearest: Mapping[int, Array]) -> Lazy:
    """Return a tensor with one element of x for each."""
    entries = {at: reader.entries(np.clip(each, 0, x.shape[at] - 1)) for at, each in nearest.items()}

    def at(indices: Indices) -> Node:
        return x.at(tuple(entries[axis](one) if axis in entries else one for axis, one in enumerate(indices)))

    return Lazy(shape, x.dtype, at)


def _weighted(reader: Reader, x: Lazy, shape: tuple[int, ...], taps: Mapping[int, Taps]) -> Lazy:
    """Return a tensor with the weighted sum of elements of x for each."""
    counts = {axis: each.indices.shape[1] for axis, each in taps.items()}
    is_folded = prod(counts.values()) + sum(counts.values()) > FEW
    combined = _folded(reader, x, taps) if is_folded else _in_order(reader, x, taps)
    return Lazy(shape, x.dtype, lambda indices: converted(combined(indices), x.dtype))


def _in_order(reader: Reader, x: Lazy, taps: Mapping[int, Taps]) -> Callable[[Indices], Node]:
    each_tap = {
        axis: [
            (reader.entries(index), reader.vector(weight))
            for index, weight in zip(of.indices.T, of.weights.T, strict=True)
        ]
        for axis, of in taps.items()
    }

    def at(indices: Indices) -> Node:
        terms = []
        for chosen in product(*each_tap.values()):
            moved, weights = list(indices), []
            for axis, (entry, weight) in zip(each_tap, chosen, strict=True):
                moved[axis] = entry(indices[axis])
                weights.append(weight(indices[axis]))
            terms.append(_product([*weights[::-1], converted(x.at(tuple(moved)), FLOAT)]))
        return reduce(lambda one, other: call("add", one, other), terms)

    return at


def _folded(reader: Reader, x: Lazy, taps: Mapping[int, Taps]) -> Callable[[Indices], Node]:
    columns = {axis: Axis(f"c{at}", of.indices.shape[1]) for at, (axis, of) in enumerate(taps.items())}
    tables = {axis: (reader.entries(of.indices), reader.vector(of.weights)) for axis, of in taps.items()}

    def at(indices: Indices) -> Node:
        moved, weights = list(indices), []
        for axis, (entry, weight) in tables.items():
            place = indices[axis] * columns[axis].extent + Index.of(columns[axis])
            moved[axis] = entry(place)
            weights.append(weight(place))
        element = converted(x.at(tuple(moved)), FLOAT)
        return Folding("sum", _product([*weights[::-1], element]), tuple(columns.values()))

    return at


def _product(factors: Sequence[Node]) -> Node:
    return reduce(lambda one, other: call("multiply", one, other), factors)


def _filled(reader: Reader, made: Lazy, places: Mapping[int, tuple[Array, int]]) -> Lazy:
    """Return a tensor with the extrapolation value where the place is outside of x."""
    fill = number(reader.attribute("extrapolation_value", 0.0), made.dtype)
    outside = {at: reader.entries((place < 0) | (place > extent - 1)) for at, (place, extent) in places.items()}

    def at(indices: Indices) -> Node:
        guards = [Guard(entry(indices[axis]), 1) for axis, entry in outside.items()]
        return guarded(made.at(indices), guards, fill)

    return Lazy(made.shape, made.dtype, at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {"Resize": resize, "Upsample": resize}
