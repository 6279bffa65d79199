"""Functions of one quantized tensor, element by element, as a layer that a kernel runs: a table of 256.

Folds DequantizeLinear, functions of each element and QuantizeLinear into one table, where bytes go in and come out.

However many functions of real numbers there are between the two: the input has 256 values, and so has the output. Who
computes these layers otherwise fills the table, so that it has his bits.
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

ALPHA = 0.01  # of a LeakyRelu that gives none


@dataclass(frozen=True, eq=False)
class Tabulated:
    """`table` has the output for each byte, in the order of `codes`."""

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
    """In the order in which the tensor lies."""

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
    """Every element of a type of 8 bits, in the order of a table's entries."""
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
    """Bytes without a scale: ONNX has it of int8."""
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


# Their output has one number for each of the input, which depends on that number alone.
ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "Celu", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity"),
        *("LeakyRelu", "Max", "Min", "Mish", "Mul", "Neg", "Pow", "PRelu", "Reciprocal", "Relu", "Selu", "Sigmoid"),
        *("Softplus", "Softsign", "Sqrt", "Sub", "Swish", "Tanh", "ThresholdedRelu"),
        *("com.microsoft.Gelu", "com.microsoft.QuickGelu"),
    }
)
# The layers, the tensor that they read and the one that they make -> the function that they are.
Functions = Callable[[Sequence[Layer], str, str], Callable[[Array], Array]]


@dataclass(frozen=True)
class Island:
    """Layers in the order in which they run, the first of which read the bytes `x`, and the last of which makes bytes
    again."""

    layers: tuple[Layer, ...]
    x: str

    @property
    def last(self) -> Layer:
        return self.layers[-1]


def fold_tables(
    network: Network, served: Mapping[str, Served], functions: Functions
) -> tuple[Network, dict[str, Served]]:
    """Where a layer beside them runs here: for others the bytes would go to the device and come back."""
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
    """None where a number's output depends on where it stands: ends of arrays may be computed by other instructions."""
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
    """Everything from one tensor of bytes to the layer; None where anything else is read."""
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
    """The folded layers instead of those that they are made of. What others read as well stays."""
    islands = [one for one in folded.values() if isinstance(one, Tabulated) and one.layer.parts]
    instead = {one.layer.name: one.layer for one in islands}
    layers = tuple(instead.get(layer.name, layer) for layer in network.layers)
    return replace(network, layers=layers).without_unread()
