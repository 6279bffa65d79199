"""Element-wise functions of one quantized tensor on the table kernel.

`fold_tables` turns DequantizeLinear, element-wise functions and QuantizeLinear into one table: with 256 possible
inputs, any number of functions has 256 outputs. The runtime that would otherwise run these layers fills the table, so
that it has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from qconv.arithmetic.parameter import ENTRIES
from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import NUMBERS, Array, Reading
from qconv.network.graph.served import Prepared, Served, Unserved
from qconv.network.graph.value import Value
from qconv.tensor_ops import Table
from qconv.tensor_ops.functions import named, table_of
from qconv.tensor_ops.problem import BYTES

ALPHA = 0.01  # the default of LeakyRelu


@dataclass(frozen=True, eq=False)
class Tabulated:
    """A lookup. `table` has the output for each byte, in the order of `codes`."""

    layer: Layer
    x: str
    y: str
    dtype: str
    table: Array

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def problem(self, shape: tuple[int, ...]) -> Table:
        return Table(prod(shape), x_type=self.dtype, out_type=str(self.table.dtype))

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        (shape,) = shapes
        return _LookedUp(self.problem(shape), self.table, device)


class _LookedUp:
    """A lookup prepared for one shape. It keeps the tensor's order of axes."""

    def __init__(self, problem: Table, table: Array, device: Device) -> None:
        self._device = device
        self.problems = (problem,)
        instance = lookup(problem, device.spec)
        self._packed = instance.pack(device.upload(table))
        self._seen = problem.inputs[0].shape
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        array = x.channels_last if x.is_channels_last else x.on_device
        y = self._packed.in_sequence(self._device.contiguous(array).reshape(self._seen)).reshape(array.shape)
        return Value.ordered(self._device, y, x.is_channels_last)


def codes(dtype: str) -> Array:
    """Return every element of an 8-bit type, in the order of a table's entries."""
    return np.arange(ENTRIES, dtype=np.uint8).view(dtype)


def sigmoid(reading: Reading) -> Tabulated:
    return _quantized(reading, "sigmoid", None)


def leaky_relu(reading: Reading) -> Tabulated:
    return _quantized(reading, "leaky_relu", reading.layer.attributes.get("alpha", ALPHA))


def _quantized(reading: Reading, function: str, alpha: Any) -> Tabulated:
    _, dtype = reading.x()
    try:
        table = table_of(named(function, alpha), dtype, dtype, **reading.scales(NUMBERS, 1))
    except ValueError as error:
        raise Unserved(str(error)) from None
    return _tabulated(reading, table)


def relu(reading: Reading) -> Tabulated:
    """Read a Relu of bytes without a scale, which ONNX has for int8."""
    _, dtype = reading.x()
    return _tabulated(reading, np.maximum(codes(dtype), 0))


def clip(reading: Reading) -> Tabulated:
    _, dtype = reading.x()
    table = codes(dtype)
    for number, (what, step) in enumerate((("min", np.maximum), ("max", np.minimum)), 1):
        limit = reading.optional(number, what)
        if limit is not None:
            table = step(table, limit.reshape(-1))
    return _tabulated(reading, table)


def _tabulated(reading: Reading, table: Array) -> Tabulated:
    x, dtype = reading.x()
    return Tabulated(reading.layer, x, reading.layer.outputs[0], dtype, table)


# Ops whose output has one element per input element, which depends on that element alone.
ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "Celu", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity"),
        *("LeakyRelu", "Max", "Min", "Mish", "Mul", "Neg", "Pow", "PRelu", "Reciprocal", "Relu", "Selu", "Sigmoid"),
        *("Softplus", "Softsign", "Sqrt", "Sub", "Swish", "Tanh", "ThresholdedRelu"),
        *("com.microsoft.Gelu", "com.microsoft.QuickGelu"),
    }
)
# Maps layers, the tensor that they read and the one that they make to the function that they compute.
Functions = Callable[[Sequence[Layer], str, str], Callable[[Array], Array]]


@dataclass(frozen=True)
class Island:
    """Layers in the order in which they run, from the first readers of the bytes `x` to the last layer, which makes
    bytes again."""

    layers: tuple[Layer, ...]
    x: str

    @property
    def last(self) -> Layer:
        return self.layers[-1]


def fold_tables(
    network: Network, served: Mapping[str, Served], functions: Functions
) -> tuple[Network, dict[str, Served]]:
    """Fold islands with an adjacent served layer: for others, the bytes would be copied to the device and back."""
    folded = dict(served)
    made = {one.y for one in served.values()}
    for layer in network.layers:
        island = _island(network, layer) if layer.op == "QuantizeLinear" else None
        if island is None or layer.name in folded:
            continue
        readers = network.consumers.get(layer.outputs[0], ())
        if island.x not in made and not any(reader.name in folded for reader in readers):
            continue
        one = _island_as_table(network, island, functions)
        if one is not None:
            folded[layer.name] = one
            made.add(one.y)
    return _without_parts(network, folded), folded


def _island_as_table(network: Network, island: Island, functions: Functions) -> Tabulated | None:
    """Return the island as a table, or None where an output depends on its position: other instructions may compute the
    ends of arrays."""
    dtype = network.tensor(island.x).dtype or ""
    (y,) = island.last.outputs
    every = codes(dtype)
    try:
        compute = functions(island.layers, island.x, y)
        table = compute(every).reshape(-1)
        rolled = compute(np.roll(every, 5)[:-3]).reshape(-1)
        alone = np.concatenate([compute(every[at : at + 1]).reshape(-1) for at in range(len(every))])
    except ValueError:
        return None
    if not np.array_equal(table, alone) or not np.array_equal(np.roll(table, 5)[:-3], rolled):
        return None
    inner = [layer.op for layer in island.layers if layer.op not in ("DequantizeLinear", "QuantizeLinear")]
    layer = replace(island.last, op=(*inner, island.last.op)[0], inputs=(island.x,), parts=island.layers)
    return Tabulated(layer, island.x, y, dtype, table)


def _island(network: Network, last: Layer) -> Island | None:
    """Return the layers between a tensor of bytes and `last`, or None if they read anything but that tensor and
    constants."""
    found: dict[str, Layer] = {last.name: last}
    sources: set[str] = set()
    if not _is_of_one_scale(network, last) or network.tensor(last.outputs[0]).dtype not in BYTES:
        return None
    waiting = [last.inputs[0]]
    numbers: list[Array] = []
    while waiting:
        name = waiting.pop()
        layer = network.producers.get(name)
        if name in network.constants:
            numbers.append(network.constants[name])
        elif layer is None or len(layer.outputs) != 1 or layer.captured:
            return None
        elif layer.op == "DequantizeLinear" and _is_of_one_scale(network, layer):
            found[layer.name] = layer
            sources.add(layer.inputs[0])
        elif layer.op in ELEMENTWISE:
            found[layer.name] = layer
            waiting += [each for each in layer.inputs if each]
        else:
            return None
    tensor = network.tensor(next(iter(sources), ""))
    rank = len(tensor.shape or ())
    if len(sources) != 1 or tensor.dtype not in BYTES or tensor.name in network.constants:
        return None
    if any(number.size != 1 or number.ndim > rank for number in numbers):
        return None
    return Island(tuple(layer for layer in network.layers if layer.name in found), tensor.name)


def _is_of_one_scale(network: Network, layer: Layer) -> bool:
    given = [network.constant(name) for name in layer.inputs[1:] if name]
    return not layer.attributes.get("block_size", 0) and all(array is not None and array.size == 1 for array in given)


def _without_parts(network: Network, folded: Mapping[str, Served]) -> Network:
    """Return the network with the folded layers in place of their parts. Parts with other readers stay."""
    islands = [one for one in folded.values() if isinstance(one, Tabulated) and one.layer.parts]
    instead = {one.layer.name: one.layer for one in islands}
    layers = tuple(instead.get(layer.name, layer) for layer in network.layers)
    return replace(network, layers=layers).without_unread()
