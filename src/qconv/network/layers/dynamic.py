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
from qconv.network.graph.served import Reason, Served, Unserved
from qconv.network.graph.value import Shape, Value

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
        problem = Dynamic.of("ort", x_type="float32", **view_of(shape, None).sizes)
        self.problems = (problem,)
        self._names, self._device = names, device
        instance = lookup(problem, device.spec)
        self._packed = instance.pack()
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        return self.outputs(*inputs)[self._names[0]]

    def outputs(self, *inputs: Value) -> Mapping[str, Value]:
        (x,) = inputs
        array = self._device.contiguous(x.array)
        (problem,) = self.problems
        y, scale, zero_point = self._packed.in_sequence(array.reshape(problem.shape))
        made = (x.with_array(y.reshape(array.shape)), self._single(scale), self._single(_as_byte(zero_point)))
        return dict(zip(self._names, made, strict=False))

    def _single(self, array: Any) -> Value:
        return Value(self._device, there=array.reshape(()))


def _as_byte(zero_point: Any) -> Any:
    """View the low byte of an int32, which holds all of a uint8: devices are little-endian."""
    return zero_point.view(np.uint8)[:1]


def serve_dynamic(
    network: Network, served: Mapping[str, Served]
) -> tuple[Network, dict[str, Served], dict[str, Reason]]:
    """Return the network, in which scales and zero points have a shape; the served layers with the dynamic
    quantizations; and why the others are not served."""
    found, left, tensors = dict(served), dict[str, Reason](), dict(network.tensors)
    for layer in network.layers:
        if layer.op != OP:
            continue
        try:
            found[layer.name] = _read(layer, network)
        except Unserved as error:
            left[layer.name] = error.reason
        # Where inference has no shape, it means a scalar.
        tensors |= {name: Tensor(name, network.tensor(name).dtype, ()) for name in layer.outputs[1:] if name}
    return replace(network, tensors=tensors), found, left


def _read(layer: Layer, network: Network) -> DynamicQuantization:
    x = layer.inputs[0]
    if x in network.constants:
        raise Unserved(f"its input {x!r} is a constant")
    if network.tensor(x).dtype != "float32":
        raise Unserved(f"its input {x!r} is {network.tensor(x).dtype}; the kernels quantize float32")
    return DynamicQuantization(layer)
