"""Resize by whole factors to the nearest pixel, and Pad with a constant: copies of bytes, one axis at a time, by the
concat kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value, last_of
from qconv.network.layers.movement import Moving
from qconv.tensor_ops import Concat


class Widened(NamedTuple):
    """The change of one axis: each element is repeated `times` times, with `before` and `behind` constants around
    all."""

    times: int = 1
    before: int = 0
    behind: int = 0

    @property
    def changes(self) -> bool:
        return self != (1, 0, 0)


@dataclass(frozen=True, eq=False)
class Widening(Moving):
    """A resize or a pad. `by` maps the input's shape to the change of each axis. `constant` is the padding byte."""

    dtype: str
    by: Callable[[Shape], list[Widened]]
    constant: int = 0

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _Widened(self, shapes[0], device)


class _Widened:
    """A resize or pad prepared for one shape: one launch per axis that changes. Rows consist of the axis and everything
    inside it."""

    def __init__(self, layer: Widening, shape: Shape, device: Device) -> None:
        order = last_of(range(len(shape)))
        by = layer.by(shape)
        seen = [shape[axis] for axis in order]
        self._device, self._last = device, len(shape) > 2
        self._launches: list[tuple[Any, list[Any], Shape, Shape]] = []
        problems: list[Concat] = []
        whys: list[str] = []
        for at, axis in enumerate(order):
            if not by[axis].changes:
                continue
            problem, given, taken = _along(seen, at, by[axis], layer)
            instance = lookup(problem, device.spec)
            arrays = [None if one is None else device.upload(one) for one in given]
            seen[at] = by[axis].times * seen[at] + by[axis].before + by[axis].behind
            self._launches.append((instance.pack(), arrays, taken, tuple(seen)))
            problems.append(problem)
            whys.append(instance.why)
        self.problems = tuple(problems)
        self.why = "; ".join(dict.fromkeys(whys)) or "no kernel: nothing changes"

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        array = x.channels_last if self._last else x.on_device
        for packed, arrays, taken, made in self._launches:
            rows = self._device.contiguous(array).reshape(taken)
            array = packed.in_sequence(*(rows if one is None else one for one in arrays)).reshape(made)
        return Value.ordered(self._device, array, self._last)


def _along(seen: Sequence[int], at: int, by: Widened, layer: Widening) -> tuple[Concat, list[Any], Shape]:
    """Return the problem, its tensors (None for the one to widen), and the shape of that one as rows."""
    rows, inner = prod(seen[:at]), prod(seen[at + 1 :])
    if by.times > 1:  # each element becomes a row, joined `times` times to itself
        rows, width = rows * seen[at], inner
        return Concat.of(rows, [(width, width, 0, False)] * by.times, layer.dtype), [None] * by.times, (rows, width)
    widths = [by.before * inner, seen[at] * inner, by.behind * inner]
    given = [np.full((rows, width), layer.constant, layer.dtype) for width in widths]
    tensors = [None if number == 1 else one for number, one in enumerate(given) if widths[number]]
    slices = [(width, width, 0, False) for width in widths if width]
    return Concat.of(rows, slices, layer.dtype), tensors, (rows, widths[1])


def resize(reading: Reading) -> Widening:
    attributes = reading.layer.attributes
    x, dtype = reading.x()
    mode = _word(attributes, "mode", "nearest")
    is_first = len(reading.layer.inputs) == 2  # until opset 10
    if mode != "nearest":
        raise Unserved(f"mode={mode}, which computes new values; the kernels copy the nearest")
    scales = reading.optional(1 if is_first else 2, "scales")
    sizes = reading.optional(3, "sizes")
    named = attributes.get("axes")
    where = _word(attributes, "coordinate_transformation_mode", "half_pixel")
    rounding = _word(attributes, "nearest_mode", "round_prefer_floor")
    if is_first:
        where, rounding = "asymmetric", "floor"
    if _word(attributes, "keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unserved("keep_aspect_ratio_policy is given, which the kernels do not have")

    def by(shape: Shape) -> list[Widened]:
        found = [Widened()] * len(shape)
        given = scales if sizes is None or not sizes.size else sizes
        assert given is not None
        axes = range(len(shape)) if named is None else [int(axis) % len(shape) for axis in named]
        for axis, number in zip(axes, given.reshape(-1), strict=True):
            times = float(number) if given is scales else int(number) / shape[axis]
            found[axis] = Widened(_factor(times, where, rounding))
        return found

    if scales is None and sizes is None:
        raise Unserved("neither scales nor sizes are given")
    shape = reading.network.tensor(x).shape
    if shape is not None and (None not in shape or sizes is None or not sizes.size):
        by(tuple(extent or 1 for extent in shape))  # raises now what it would for the shape of a run
    return Widening(reading.layer, (x,), reading.layer.outputs[0], dtype, by)


def _factor(times: float, where: str, rounding: str) -> int:
    """Return the factor by which each element is repeated. With half-pixel coordinates, the nearest pixel gives
    repetition for any factor; with asymmetric ones, if coordinates are rounded down, or for factor 2 if halves are."""
    factor = round(times)
    if factor != times or factor < 1:
        raise Unserved(f"it is resized by {times:g}; the kernels repeat pixels, a whole number of times")
    by_half = where in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round_prefer")
    by_floor = where == "asymmetric" and (rounding == "floor" or (rounding == "round_prefer_floor" and factor == 2))
    if factor > 1 and not by_half and not by_floor:
        raise Unserved(f"{where} with {rounding} does not repeat each pixel {factor} times, which the kernels do")
    return factor


def pad(reading: Reading) -> Widening:
    attributes = reading.layer.attributes
    x, dtype = reading.x()
    mode = _word(attributes, "mode", "constant")
    if mode != "constant":
        raise Unserved(f"mode={mode}; the kernels pad with a constant")
    pads = [int(each) for each in reading.constant(1, "pads").reshape(-1)]
    if any(each < 0 for each in pads):
        raise Unserved(f"pads={pads}; the kernels add and do not cut")
    value, axes = reading.optional(2, "constant_value"), reading.optional(3, "axes")

    def by(shape: Shape) -> list[Widened]:
        found = [Widened()] * len(shape)
        named = range(len(shape)) if axes is None else [int(axis) % len(shape) for axis in axes.reshape(-1)]
        for number, axis in enumerate(named):
            found[axis] = Widened(1, pads[number], pads[len(pads) // 2 + number])
        return found

    constant = 0 if value is None or not value.size else int(value.reshape(-1)[0])
    return Widening(reading.layer, (x,), reading.layer.outputs[0], dtype, by, constant)


def _word(attributes: Any, name: str, default: str) -> str:
    given = attributes.get(name, default)
    return given.decode() if isinstance(given, bytes) else str(given)
