"""Concat, QLinearConcat, Split and Slice of bytes along one axis on the concat kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value, last_of
from qconv.network.layers.movement import Moving
from qconv.tensor_ops import Concat
from qconv.tensor_ops.functions import rescaled
from qconv.tensor_ops.problem import BYTES


class Cut(NamedTuple):
    """A part of a tensor: `width` elements along an axis, from `begin` on."""

    axis: int
    begin: int
    width: int


@dataclass(frozen=True, eq=False)
class Joined(Moving):
    """A concatenation. `cut` maps the shape of an input to the part that is used. `tables` has one per input, or None
    where its bytes are copied."""

    dtype: str
    cut: Callable[[Shape], Cut]
    tables: tuple[Array | None, ...]

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _Joined(self, shapes, device)

    def problem(self, shapes: Sequence[Shape]) -> tuple[Concat, Shape]:
        """Return the problem, and the output's shape in the kernel's order: with the channels last, if there are
        any."""
        try:
            cuts = [self.cut(shape) for shape in shapes]
        except IndexError:
            raise ValueError(f"x has shape {shapes[0]}, which does not have the axis or the part") from None
        axis = cuts[0].axis
        rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(rest) > 1:
            raise ValueError(f"tensors of the shapes {', '.join(map(str, shapes))} cannot be joined along axis {axis}")
        order = last_of(range(len(shapes[0])))
        at = order.index(axis)
        seen = [shapes[0][each] for each in order]
        rows, inner = prod(seen[:at]), prod(seen[at + 1 :])
        slices = [
            (cut.width * inner, shape[axis] * inner, cut.begin * inner, table is not None)
            for cut, shape, table in zip(cuts, shapes, self.tables, strict=True)
        ]
        seen[at] = sum(cut.width for cut in cuts)
        return Concat.of(rows, slices, self.dtype), tuple(seen)


class _Joined:
    def __init__(self, layer: Joined, shapes: Sequence[Shape], device: Device) -> None:
        problem, self._y_shape = layer.problem(shapes)
        self.problems = (problem,)
        instance = lookup(problem, device.spec)
        tables = [table for table in layer.tables if table is not None]
        self._packed = instance.pack(*([device.upload(np.stack(tables))] if tables else []))
        self._device = device
        self._seen = [(problem.rows, each.stride) for each in problem.slices]
        self._last = len(shapes[0]) > 2
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        arrays = [x.channels_last if self._last else x.on_device for x in inputs]
        y = self._packed.in_sequence(*(array.reshape(shape) for array, shape in zip(arrays, self._seen, strict=True)))
        y = y.reshape(self._y_shape)
        return Value.ordered(self._device, y, self._last)


def concat(reading: Reading) -> Joined:
    count = len(reading.layer.inputs)
    return _joined(reading, range(count), [None] * count)


def qlinear_concat(reading: Reading) -> Joined:
    """Read QLinearConcat, whose inputs are the output's scale and zero point, then each tensor with its own."""
    _, dtype = reading.x(2)
    tables: list[Array | None] = []
    for number in range(2, len(reading.layer.inputs), 3):
        numbers = reading.scales(
            {"x_scale": number + 1, "x_zero_point": number + 2, "y_scale": 0, "y_zero_point": 1}, 1
        )
        try:
            tables.append(rescaled(dtype, **numbers))
        except ValueError as error:
            raise Unserved(str(error)) from None
    return _joined(reading, range(2, len(reading.layer.inputs), 3), tables)


def _joined(reading: Reading, numbers: Sequence[int], tables: Sequence[Array | None]) -> Joined:
    axis = int(reading.layer.attributes.get("axis", 1))
    named_types = [reading.x(number) for number in numbers]

    def cut(shape: Shape) -> Cut:
        return Cut(axis % len(shape), 0, shape[axis])

    inputs = tuple(name for name, _ in named_types)
    return Joined(reading.layer, inputs, reading.layer.outputs[0], named_types[0][1], cut, tuple(tables))


def slice_of(reading: Reading) -> Joined:
    given = [reading.optional(number, what) for number, what in enumerate(("starts", "ends", "axes", "steps"), 1)]
    if given[0] is None or given[1] is None:
        raise Unserved("its starts and ends are attributes, as until opset 9")
    starts, ends, axes, steps = (
        None if each is None else [int(number) for number in each.reshape(-1)] for each in given
    )
    assert starts is not None
    assert ends is not None
    if any(step != 1 for step in steps or ()):
        raise Unserved(f"steps={steps}; the kernels copy neighbours")

    def cut(shape: Shape) -> Cut:
        found = []
        for axis, start, end in zip(axes or range(len(starts)), starts, ends, strict=False):
            begin, behind, _ = slice(start, end).indices(shape[axis])
            if behind - begin < shape[axis]:
                found.append(Cut(axis % len(shape), begin, behind - begin))
        if len(found) > 1:
            raise ValueError(f"x has shape {shape} and is cut along {len(found)} axes; the kernels cut along one")
        return found[0] if found else Cut(0, 0, shape[0])

    return _cut(reading, cut)


def split(reading: Reading) -> Joined:
    """Read one output of a Split. `one_output_each` has made each a layer of its own."""
    attributes = reading.layer.attributes
    axis, number, count = (int(attributes.get(name, 0)) for name in ("axis", "output", "outputs"))
    given: Any = attributes.get("split")
    given = reading.optional(1, "split") if given is None else given

    def cut(shape: Shape) -> Cut:
        extent = shape[axis]
        equal = -(-extent // max(count, 1))
        widths = (
            [equal] * number + [min(equal, extent - number * equal)]
            if given is None
            else [int(width) for width in np.reshape(given, -1)]
        )
        return Cut(axis % len(shape), sum(widths[:number]), widths[number])

    return _cut(reading, cut)


def _cut(reading: Reading, cut: Callable[[Shape], Cut]) -> Joined:
    x, dtype = reading.x()
    return Joined(reading.layer, (x,), reading.layer.outputs[0], dtype, cut, (None,))


# Ops each of whose outputs is computed for itself.
SPLIT = ("LayerNormalization", "MaxPool", "Split")


def one_output_each(network: Network, dtypes: Collection[str] = BYTES) -> Network:
    """Return the network with each output of some ops of these types as a layer of its own: a served layer has one
    output."""
    layers: list[Layer] = []
    for layer in network.layers:
        # A Dropout that trains draws its outputs from the same random numbers.
        is_split = layer.op in SPLIT or (layer.op == "Dropout" and len(layer.inputs) < 3)
        if is_split and len(layer.outputs) > 1 and network.tensor(layer.inputs[0]).dtype in dtypes:
            layers += [_one_output(layer, number) for number, name in enumerate(layer.outputs) if name]
        else:
            layers.append(layer)
    return replace(network, layers=tuple(layers))


def _one_output(layer: Layer, number: int) -> Layer:
    y = layer.outputs[number]
    attributes = {**layer.attributes, "output": number, "outputs": len(layer.outputs)}
    return replace(layer, name=f"{layer.name}:{y}", outputs=(y,), attributes=attributes, parts=(layer,))
