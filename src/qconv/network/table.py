"""Functions of one quantized tensor, element by element, as a layer that a kernel runs: a table of 256."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.serving import lookup
from qconv.network.graph import Layer
from qconv.network.reading import NUMBERS, Array, Reading
from qconv.network.served import Prepared, Unserved
from qconv.network.value import Value
from qconv.parameter import ENTRIES
from qconv.tensor_ops import Table
from qconv.tensor_ops.functions import named, table_of

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
