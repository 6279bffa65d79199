"""DynamicQuantizeLinear on the kernels of `dynamic`: the scale and the zero point stay on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.conversion import Dynamic
from qconv.conversion.view import view_of
from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.reading import Reading, read_each
from qconv.network.graph.served import Reason, Served, Unserved
from qconv.network.graph.value import Shape, Value, last_of

OP = "DynamicQuantizeLinear"


@dataclass(frozen=True, eq=False)
class DynamicQuantization:
    """A DynamicQuantizeLinear layer. Its outputs are the bytes, the scale and the zero point."""

    layer: Layer

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.layer.inputs[:1]

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    def prepare(self, shapes: Sequence[Shape], device: Device) -> DynamicQuantized:
        (shape,) = shapes
        return DynamicQuantized(self.layer.outputs, shape, device)


class DynamicQuantized:
    """A dynamic quantization prepared for one shape. The order of axes is that of the input."""

    def __init__(self, names: Sequence[str], shape: Shape, device: Device) -> None:
        self._names, self._device = names, device
        self.problems = (Dynamic.of("ort", x_type="float32", **view_of(shape, None).sizes),)
        instance = lookup(*self.problems, device.spec)
        self.why, self._packed = instance.why, instance.pack()

    def __call__(self, *inputs: Value) -> Value:
        return self.outputs(*inputs)[self._names[0]]

    def outputs(self, *inputs: Value) -> Mapping[str, Value]:
        (x,) = inputs
        (problem,) = self.problems
        array = self._device.contiguous(x.array).reshape(problem.shape)
        y, scale, zero_point = self._packed.in_sequence(array)
        shape = last_of(x.shape) if x.is_channels_last else x.shape
        made = (x.with_array(y.reshape(shape)), self._single(scale), self._single(_as_byte(zero_point)))
        return {name: value for name, value in zip(self._names, made, strict=False) if name}

    def _single(self, array: Any) -> Value:
        return Value(self._device, there=array.reshape(()))


def _as_byte(zero_point: Any) -> Any:
    """View the low byte of an int32, which holds all of a uint8: devices are little-endian."""
    return zero_point.view(np.uint8)[:1]


def with_scalars(network: Network) -> Network:
    """Return the network in which the scales and zero points of such layers have a shape: inference gives scalars
    none."""
    scalars = [name for layer in network.layers if layer.op == OP for name in layer.outputs[1:] if name]
    known = {name: Tensor(name, network.tensor(name).dtype, ()) for name in scalars}
    return replace(network, tensors={**network.tensors, **known})


def serve_dynamic(network: Network, served: Mapping[str, Served]) -> tuple[dict[str, Served], dict[str, Reason]]:
    """Return the served layers with the dynamic quantizations, and why the others are not served."""
    return read_each(network, served, OP, dynamic_quantization)


def dynamic_quantization(reading: Reading) -> DynamicQuantization:
    x = reading.name(0)
    if x in reading.network.constants:
        raise Unserved(f"its input {x!r} is a constant")
    if reading.network.tensor(x).dtype != "float32":
        raise Unserved(f"its input {x!r} is {reading.network.tensor(x).dtype}; the kernels quantize float32")
    return DynamicQuantization(reading.layer)
