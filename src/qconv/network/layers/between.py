"""A float layer between DequantizeLinear and QuantizeLinear, as its integer form reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Unserved

# The inputs of DequantizeLinear and QuantizeLinear that are numbers.
X_NUMBERS, Y_NUMBERS = {"x_scale": 1, "x_zero_point": 2}, {"y_scale": 1, "y_zero_point": 2}


@dataclass(frozen=True, eq=False)
class Between:
    """A layer, and the QuantizeLinear behind it, `last`. What it lacks as an integer layer raises `Unserved`."""

    network: Network
    layer: Layer
    last: Layer

    @cached_property
    def first(self) -> Reading:
        """The DequantizeLinear in front of it."""
        first = self.network.producers.get(self.layer.inputs[0])
        if first is None or first.op != "DequantizeLinear":
            raise Unserved("the floats that it reads are not dequantized")
        if any(one.attributes.get("block_size", 0) for one in (first, self.last)):
            raise Unserved("it has scales of blocks")
        return Reading(first, self.network)

    @property
    def y(self) -> str:
        return self.last.outputs[0]

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the scales and zero points of its input and its output."""
        return self.first.scales(X_NUMBERS, 1) | Reading(self.last, self.network).scales(Y_NUMBERS, 1)

    def as_one(self, others: Sequence[Layer] = ()) -> Layer:
        """Return it with both conversions, and with other layers whose outputs it reads, as one layer."""
        parts = (self.first.layer, *others, self.layer, self.last)
        return replace(self.last, op=self.layer.op, inputs=self.first.layer.inputs[:1], parts=parts, is_exact=False)
