"""ArgMax of 8-bit tensors on kernels, with an optional DequantizeLinear before it in the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Prepared, Served
from qconv.network.graph.value import Shape, Value, last_of
from qconv.tensor_ops import ArgMax
from qconv.tensor_ops.problem import BYTES

# The largest distance of a byte from its zero point.
MOST_STEPS = 255


@dataclass(frozen=True, eq=False)
class Indices:
    """An ArgMax layer. With `last`, the last of equal elements counts."""

    layer: Layer
    x: str
    y: str
    dtype: str
    axis: int
    keeps_axis: bool
    last: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        return _Indices(self, shape, device)


class _Indices:
    """An ArgMax prepared for one shape. Its input has the channels last, unless the axis is N."""

    def __init__(self, layer: Indices, shape: Shape, device: Device) -> None:
        rank = len(shape)
        if not -rank <= layer.axis < rank:
            raise ValueError(f"axis={layer.axis} is out of range for x with shape {shape}")
        axis = layer.axis % rank
        self._reads_last = rank > 2 and axis > 0
        order = last_of(range(rank)) if self._reads_last else tuple(range(rank))
        at = order.index(axis)
        seen = [shape[each] for each in order]
        problem = ArgMax.of(seen, at, last=layer.last, x_type=layer.dtype)
        made = [1 if each == at else extent for each, extent in enumerate(seen)]
        self._gives_last = self._reads_last
        if not layer.keeps_axis:
            del made[at]
            # Without its channels, a tensor has the model's order, like any with fewer than three axes.
            self._gives_last = self._reads_last and axis > 1 and rank > 3
        instance = lookup(problem, device.spec)
        self.problems = (problem,)
        self.why = instance.why
        self._device, self._packed = device, instance.pack()
        self._seen, self._made = problem.inputs[0].shape, tuple(made)

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        y = self._packed.in_sequence(x.in_order(self._reads_last).reshape(self._seen)).reshape(self._made)
        return Value.ordered(self._device, y, self._gives_last)


def arg_max(reading: Reading) -> Indices:
    given: Mapping[str, Any] = reading.layer.attributes
    x, dtype = reading.x()
    axis, keeps, last = (int(given.get(name, usual)) for name, usual in _USUAL.items())
    return Indices(reading.layer, x, reading.layer.outputs[0], dtype, axis, bool(keeps), bool(last))


_USUAL = {"axis": 0, "keepdims": 1, "select_last_index": 0}


def fold_dequantized(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold DequantizeLinear and ArgMax into one layer that compares bytes, which changes no index. Only bytes that a
    kernel makes qualify: others would have to be copied to the device.

    Dequantization by one positive scale is monotone, and maps no two bytes to equal numbers: differences from the zero
    point are integers of at most 255, whose products with a normal number differ by a 255th or more, which float32
    resolves. So the largest numbers are exactly where the largest bytes are."""
    layers, folded = {layer.name: layer for layer in network.layers}, dict(served)
    made_here = {one.y for one in served.values()}
    for layer in network.layers:
        source = network.producers.get(layer.inputs[0]) if layer.op == "ArgMax" else None
        if source is None or layer.name in served or not _is_strictly_monotone(network, source, made_here):
            continue
        is_read = len(network.consumers[layer.inputs[0]]) > 1 or layer.inputs[0] in network.outputs
        made = replace(layer, inputs=source.inputs[:1], parts=(source, layer))
        layers[layer.name], folded[layer.name] = made, arg_max(Reading(made, network))
        if not is_read:
            del layers[source.name]
    return replace(network, layers=tuple(layers.values())), folded


def _is_strictly_monotone(network: Network, source: Layer, known: Collection[str]) -> bool:
    """True where the layer dequantizes `known` bytes strictly monotonically."""
    if source.op != "DequantizeLinear" or source.inputs[0] not in known or source.attributes.get("output_dtype", 0):
        return False
    scale = network.constant(source.inputs[1])
    zero = network.constant(source.inputs[2]) if len(source.inputs) > 2 and source.inputs[2] else np.zeros(1)
    if scale is None or zero is None or scale.size != 1 or zero.size != 1 or scale.dtype != np.float32:
        return False
    # A smaller scale may be flushed to zero, and a larger one overflow.
    limits = np.finfo(np.float32)
    in_range = limits.tiny <= scale.item() <= limits.max / MOST_STEPS
    return in_range and network.tensor(source.inputs[0]).dtype in BYTES
