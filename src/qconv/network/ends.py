"""QuantizeLinear of what the caller brings and DequantizeLinear of what it gets, where what lies between runs here.

In the middle of a network these two stand beside layers that run elsewhere: run here, they would only move floats,
which are four times the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.conversion import Dequantize, Quantize
from qconv.conversion.view import view_of
from qconv.device import Device
from qconv.instances.serving import lookup
from qconv.network.graph import Layer, Network
from qconv.network.reading import BYTES
from qconv.network.served import Prepared, Served
from qconv.network.value import Value


@dataclass(frozen=True, eq=False)
class End:
    """One of the two with one scale for the whole tensor. `integer` is the type of the side that has few bits."""

    layer: Layer
    scale: NDArray[Any]
    zero: NDArray[Any]
    integer: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.layer.inputs[:1]

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        (shape,) = shapes
        return _Converted(self, shape, device)


class _Converted:
    def __init__(self, end: End, shape: tuple[int, ...], device: Device) -> None:
        sizes: dict[str, Any] = dict(view_of(shape, None).sizes)
        zero_point = bool(end.zero.any())
        problem = (
            Quantize(**sizes, x_type="float32", out_type=end.integer, zero_point=zero_point)
            if end.layer.op == "QuantizeLinear"
            else Dequantize(**sizes, x_type=end.integer, out_type="float32", zero_point=zero_point)
        )
        values = {"scale": end.scale, "zero_point": end.zero}
        given = [values[tensor.name].astype(tensor.dtype) for tensor in problem.inputs[1:]]
        self.problems = (problem,)
        self._device = device
        self._shape = shape
        self._seen = problem.shape
        self._given = [device.upload(array.reshape(1)) for array in given]
        self._instance = lookup(problem, device.spec)
        self.why = self._instance.why

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        array = self._device.contiguous(x.on_device).reshape(self._seen)
        return Value(self._device, there=self._instance(array, *self._given).reshape(self._shape))


def serve_ends(network: Network, served: Mapping[str, Served]) -> dict[str, Served]:
    """The layers that run here already, and with them the ends that touch no others."""
    made = {one.y for one in served.values()}
    found: dict[str, Served] = dict(served)
    for layer in network.layers:
        if layer.op == "QuantizeLinear" and layer.inputs[0] in network.inputs:
            readers = network.consumers.get(layer.outputs[0], ())
            inside = readers and all(reader.name in served for reader in readers)
            touches_others = not inside or layer.outputs[0] in network.outputs
        elif layer.op == "DequantizeLinear" and layer.inputs[0] in made:
            touches_others = bool(network.consumers.get(layer.outputs[0]))
        else:
            continue
        end = None if touches_others else _read(layer, network)
        if end is not None:
            found[layer.name] = end
    return found


def _read(layer: Layer, network: Network) -> End | None:
    scale, zero = (network.constant(name) if name else None for name in (*layer.inputs[1:], "")[:2])
    zero = np.zeros((), np.uint8) if zero is None and len(layer.inputs) < 3 else zero
    if scale is None or zero is None or scale.size != 1 or zero.size != 1 or layer.attributes.get("block_size", 0):
        return None
    integer = network.tensor(layer.outputs[0] if layer.op == "QuantizeLinear" else layer.inputs[0]).dtype
    real = network.tensor(layer.inputs[0] if layer.op == "QuantizeLinear" else layer.outputs[0]).dtype
    finite = np.isfinite(scale).all() and scale.item() > 0
    if (real, str(scale.dtype)) != ("float32", "float32") or integer not in BYTES or not finite:
        return None
    return End(layer, scale, zero, integer)
