"""Sums and products of two quantized tensors on kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value, last_of
from qconv.tensor_ops import Add, Binary, Mul
from qconv.tensor_ops.binary import begins_with_first, turned, view_of

# The inputs of QLinearAdd and QLinearMul that are scales and zero points.
NUMBERS = {"a_scale": 1, "a_zero_point": 2, "b_scale": 4, "b_zero_point": 5, "y_scale": 6, "y_zero_point": 7}


@dataclass(frozen=True, eq=False)
class QuantizedBinary:
    """A sum or product. `operands` are in the layer's order: tensor names or constants. The kernel takes the larger
    first."""

    layer: Layer
    operands: tuple[str | Array, str | Array]
    y: str
    kind: type[Binary]
    dtype: str
    parameters: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(operand for operand in self.operands if isinstance(operand, str))

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _Paired(self, shapes, device)

    def shapes(self, given: Sequence[Shape]) -> list[Shape]:
        """Return both shapes in the model's order, from those of the inputs."""
        left = iter(given)
        return [next(left) if isinstance(operand, str) else operand.shape for operand in self.operands]

    def widened(self, shapes: Sequence[Shape]) -> list[Shape]:
        """Pad the shapes of constants with leading extents of 1 to the full rank."""
        rank = max(map(len, shapes))
        wide = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
        pairs = zip(self.operands, shapes, wide, strict=True)
        return [shape if isinstance(operand, str) else longer for operand, shape, longer in pairs]

    def problem(self, shapes: Sequence[Shape]) -> tuple[Binary, bool, bool]:
        """Return the problem, whether the operands are exchanged, and whether the channels must be last."""
        a, b = self.widened(shapes)
        types = {"a_type": self.dtype, "b_type": self.dtype, "out_type": self.dtype}
        rank = max(len(a), len(b))
        wide_a, wide_b = ((1,) * (rank - len(shape)) + tuple(shape) for shape in (a, b))
        is_turned = any(ours < theirs for ours, theirs in zip(wide_a, wide_b, strict=True)) or len(a) < len(b)
        if is_turned:
            a, b = b, a
        # The model's shapes decide, because ONNX Runtime sees those.
        if self.kind is Add and is_turned != begins_with_first(*shapes):
            types["added_first"] = "a"
        *first, last = self._orders(a, b, isinstance(self.operands[not is_turned], str))
        for is_last in first:
            with suppress(ValueError):
                return self._of(a, b, is_last, types), is_turned, is_last
        return self._of(a, b, last, types), is_turned, last

    def _of(self, a: Shape, b: Shape, is_last: bool, types: Mapping[str, Any]) -> Binary:
        return self.kind.of(last_of(a), last_of(b), **types) if is_last else self.kind.of(a, b, **types)

    @staticmethod
    def _orders(a: Shape, b: Shape, is_computed: bool) -> tuple[bool, ...]:
        """Return whether the channels are last, for each order to try: first the one that a larger batch has. There, a
        number per channel repeats along adjacent elements with the channels last, and one per column of a matrix in the
        model's order."""
        if a == b or len(a) != len(b) or len(a) < 3 or prod(b) == 1:
            return (False,)
        batch = (2, *a[1:]), ((2, *b[1:]) if is_computed and a[0] == b[0] else b)
        try:
            view_of(*map(last_of, batch))
        except ValueError:
            return (False, True)
        return (True, False)


class _Paired:
    """A sum or product prepared for two shapes. Two tensors of equal shape may have any common order of axes, and so
    may a tensor beside a single number."""

    def __init__(self, layer: QuantizedBinary, given: Sequence[Shape], device: Device) -> None:
        self._device = device
        shapes = layer.shapes(given)
        problem, self._turned, self._last = layer.problem(shapes)
        self.problems = (problem,)
        wide = layer.widened(shapes)
        self._equal = wide[0] == wide[1]
        self._in_any_order = self._equal or 1 in map(prod, wide)
        self._given = [tensor.shape for tensor in problem.inputs]
        instance = lookup(problem, device.spec)
        self._packed = instance.pack(**(turned(layer.parameters) if self._turned else layer.parameters))
        pairs = zip(layer.operands, wide, strict=True)
        self._held = [None if isinstance(one, str) else self._uploaded(one.reshape(shape)) for one, shape in pairs]
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        left = iter(inputs)
        operands = [next(left) if held is None else held for held in self._held]
        a, b = reversed(operands) if self._turned else operands
        last = self._last or (self._in_any_order and (a.is_channels_last or (self._equal and b.is_channels_last)))
        arrays = [each.channels_last if last else each.on_device for each in (a, b)]
        pairs = zip(arrays, self._given, strict=True)
        y = self._packed.in_sequence(*(self._device.contiguous(array).reshape(shape) for array, shape in pairs))
        y = y.reshape(arrays[0].shape)
        return Value.ordered(self._device, y, last)

    def _uploaded(self, constant: Array) -> Value:
        """Upload a constant in both orders of axes, of which a call may request either."""
        value = Value(self._device, there=self._device.upload(np.asarray(constant, order="C")))
        _ = value.channels_last
        return value


def qlinear_add(reading: Reading) -> QuantizedBinary:
    return _binary(reading, Add)


def qlinear_mul(reading: Reading) -> QuantizedBinary:
    return _binary(reading, Mul)


def _binary(reading: Reading, kind: type[Binary]) -> QuantizedBinary:
    dtype = reading.dtype(0)
    a, b = (reading.name(number) for number in (0, 3))
    held = reading.network.constants
    if a in held and b in held:
        raise Unserved(f"both of its inputs, {a!r} and {b!r}, are constants")
    reading.dtype(3)
    parameters = reading.scales(NUMBERS, 1)
    types = dict.fromkeys(("a_type", "b_type", "out_type"), dtype)
    try:
        kind(1, 1, 1, **types).checked(dict(parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None
    (y,) = reading.layer.outputs
    operands = (held.get(a, a), held.get(b, b))
    return QuantizedBinary(reading.layer, operands, y, kind, dtype, parameters)
