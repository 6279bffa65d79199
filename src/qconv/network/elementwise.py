"""Sums and products of two quantized tensors, as the layers that the kernels run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qconv.device import Device
from qconv.instances.serving import lookup
from qconv.network.graph import Layer
from qconv.network.reading import Reading
from qconv.network.served import Prepared, Unserved
from qconv.network.value import Value
from qconv.tensor_ops import Add, Binary, Mul
from qconv.tensor_ops.binary import begins_with_first, turned

Shape = tuple[int, ...]
# Where QLinearAdd and QLinearMul have their scales and zero points.
NUMBERS = {"a_scale": 1, "a_zero_point": 2, "b_scale": 4, "b_zero_point": 5, "y_scale": 6, "y_zero_point": 7}


@dataclass(frozen=True, eq=False)
class QuantizedBinary:
    """`inputs` stand as in the layer; the kernel takes the larger first."""

    layer: Layer
    inputs: tuple[str, ...]
    y: str
    kind: type[Binary]
    dtype: str
    parameters: Mapping[str, Any]

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _Paired(self, shapes, device)

    def problem(self, shapes: Sequence[Shape]) -> tuple[Binary, bool, bool]:
        """The problem, whether the second input is the kernel's first, and whether the channels have to be last."""
        a, b = shapes
        types = {"a_type": self.dtype, "b_type": self.dtype, "out_type": self.dtype}
        rank = max(len(a), len(b))
        wide_a, wide_b = ((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes)
        is_turned = any(ours < theirs for ours, theirs in zip(wide_a, wide_b, strict=True)) or len(a) < len(b)
        if is_turned:
            a, b = b, a
        # By the shapes of the model, which are those that ONNX Runtime sees.
        if self.kind is Add and is_turned != begins_with_first(*shapes):
            types["added_first"] = "a"
        # With the channels last, a number for each channel is repeated along neighbours; a number for each pixel is
        # where they are not.
        if a != b and len(a) == len(b) > 2:
            try:
                return self.kind.of(_channels_last(a), _channels_last(b), **types), is_turned, True
            except ValueError:
                pass  # the next line says what is wrong, if something is
        return self.kind.of(a, b, **types), is_turned, False


class _Paired:
    """One sum or product for two shapes. Tensors of equal shapes may lie in any order that is the same for both."""

    def __init__(self, layer: QuantizedBinary, shapes: Sequence[Shape], device: Device) -> None:
        self._device = device
        problem, self._turned, self._last = layer.problem(shapes)
        self._equal = shapes[0] == shapes[1] and len(shapes[0]) > 2
        self._given = [tensor.shape for tensor in problem.inputs]
        self._numbers = turned(layer.parameters) if self._turned else dict(layer.parameters)
        problem.checked(dict(self._numbers))
        instance = lookup(problem, device.spec)
        self._instance = instance
        self.why = f"{instance.plan.config.family}, {instance.reason}"

    def __call__(self, *inputs: Value) -> Value:
        a, b = reversed(inputs) if self._turned else inputs
        last = self._last or (self._equal and (a.is_channels_last or b.is_channels_last))
        arrays = [each.channels_last if last else each.on_device for each in (a, b)]
        given = [
            self._device.contiguous(array).reshape(shape) for array, shape in zip(arrays, self._given, strict=True)
        ]
        y = self._instance(*given, **self._numbers).reshape(arrays[0].shape)
        return Value(self._device, channels_last=y) if last else Value(self._device, there=y)


def _channels_last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1])


def qlinear_add(reading: Reading) -> QuantizedBinary:
    return _binary(reading, Add)


def qlinear_mul(reading: Reading) -> QuantizedBinary:
    return _binary(reading, Mul)


def _binary(reading: Reading, kind: type[Binary]) -> QuantizedBinary:
    (a, dtype), (b, _) = reading.x(0), reading.x(3)
    parameters = reading.scales(NUMBERS, 1)
    types = dict.fromkeys(("a_type", "b_type", "out_type"), dtype)
    try:
        kind(1, 1, 1, **types).checked(dict(parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None
    (y,) = reading.layer.outputs
    return QuantizedBinary(reading.layer, (a, b), y, kind, dtype, parameters)
