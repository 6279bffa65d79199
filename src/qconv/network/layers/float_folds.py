"""Folds of the layers behind a convolution that gives floats into it: a bias, a sum of two tensors, an activation. Its
output is then rounded once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from qconv.arithmetic.activation import named
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.float_convolution import REALS, check
from qconv.network.layers.packed_convolution import PackedConvolution

Made = TypeVar("Made", bound=PackedConvolution)
# The largest finite number of float32, which stands for no limit.
MOST = float(np.finfo(np.float32).max)
# An activation of the kernels with its numbers, or None where they have none that the layer computes.
Bend = tuple[str, Mapping[str, float]] | None


@dataclass(frozen=True)
class Folds:
    """The folds of a network. `taken` are the names of layers that are part of other convolutions."""

    network: Network
    sums: bool
    taken: Collection[str]

    def into(self, one: Made, shape: Shape) -> Made:
        """Return the convolution with everything folded in that follows it. `shape` is that of its input."""
        for fold in (self._bias, self._sum, self._activation):
            made = fold(one)
            if made is not None and self._is_served(made, shape):
                one = made
        return one

    def _is_served(self, made: PackedConvolution, shape: Shape) -> bool:
        if any(part.name in self.taken for part in made.layer.parts):
            return False
        if self.network.tensor(made.y).dtype not in REALS:
            return False
        try:
            check(made, shape)
        except Unserved:
            return False
        return True

    def _with(self, one: Made, *folded: Layer, **changed: Any) -> Made:
        """Return the convolution with more layers, the last of which makes its output."""
        parts = (*(one.layer.parts or (one.layer,)), *folded)
        layer = replace(one.layer, outputs=folded[-1].outputs, parts=parts)
        return replace(one, layer=layer, y=layer.outputs[0], **changed)

    def _bias(self, one: Made) -> Made | None:
        add = self.network.only_consumer(one.y)
        if add is None or add.op != "Add" or "bias" in one.parameters or one.y not in add.inputs:
            return None
        if one.is_shuffled:  # a number per output is one for each of its phases
            return None
        bias = self.network.constant(add.inputs[1 - add.inputs.index(one.y)])
        if bias is None or not self._is_one_per_output(one, bias):
            return None
        given = np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), (len(one.weights),))).astype(np.float32)
        return self._with(one, add, parameters={**one.parameters, "bias": given})

    def _is_one_per_output(self, one: Made, bias: Array) -> bool:
        shape = self.network.tensor(one.y).extents or ()
        if str(bias.dtype) not in REALS or bias.ndim > len(shape):
            return False
        channel = 1 if one.axes else len(shape) - 1
        own = [1] * (len(shape) - bias.ndim) + list(bias.shape)
        return all(extent == 1 or at == channel for at, extent in enumerate(own))

    def _sum(self, one: Made) -> Made | None:
        add = self.network.only_consumer(one.y)
        if not self.sums or one.is_shuffled or add is None or add.op != "Add" or add.inputs.count(one.y) != 1:
            return None
        other = self.network.tensor(add.inputs[1 - add.inputs.index(one.y)])
        is_alike = other.extents is not None and other.extents == self.network.tensor(one.y).extents
        return self._with_added(one, add, other) if is_alike else None

    def _with_added(self, one: Made, add: Layer, other: Tensor) -> Made | None:
        if other.dtype not in REALS or other.name in self.network.constants:
            return None
        return self._with(one, add, added=other.name)

    def _activation(self, one: Made) -> Made | None:
        layer = self.network.only_consumer(one.y)
        if layer is None:
            return self._gated(one)
        bend = READERS[layer.op](layer, self.network) if layer.op in READERS else None
        if bend is None or layer.inputs[0] != one.y:
            return None
        return self._with(one, layer, activation=bend[0], parameters={**one.parameters, **bend[1]})

    def _gated(self, one: Made) -> Made | None:
        """Fold the product of the output and a function of it: as silu and hardswish are without an op of their own."""
        readers = {layer.op: layer for layer in self.network.consumers.get(one.y, ())}
        gate = next((readers[op] for op in GATES if op in readers), None)
        product = readers.get("Mul")
        if gate is None or product is None or len(readers) != 2 or one.y in self.network.outputs:
            return None
        is_alone = self.network.only_consumer(gate.outputs[0]) == product
        name = GATES[gate.op](gate)
        if not is_alone or name is None or set(product.inputs) != {one.y, gate.outputs[0]}:
            return None
        return self._with(one, gate, product, activation=name)


def _hardswish(gate: Layer) -> str | None:
    """Return the product with max(0, min(1, x / 6 + 1 / 2)), if those are the numbers of the gate."""
    given = np.float32(gate.attributes.get("alpha", 0.2)), np.float32(gate.attributes.get("beta", 0.5))
    return "hardswish" if given == (np.float32(1) / np.float32(6), np.float32(0.5)) else None


# The functions whose product with their argument is an activation of the kernels.
GATES: Mapping[str, Callable[[Layer], str | None]] = {"HardSigmoid": _hardswish, "Sigmoid": lambda gate: "silu"}


def _named(name: str) -> Callable[[Layer, Network], Bend]:
    return lambda layer, network: (name, {})


def _leaky_relu(layer: Layer, network: Network) -> Bend:
    return "leaky_relu", {"slope": float(layer.attributes.get("alpha", 0.01))}


def _gelu(layer: Layer, network: Network) -> Bend:
    approximate = layer.attributes.get("approximate", b"none")
    return ("gelu", {}) if approximate in (b"none", "none") else None


def _clip(layer: Layer, network: Network) -> Bend:
    limits = [float(layer.attributes.get("min", -MOST)), float(layer.attributes.get("max", MOST))]
    for at, name in enumerate(layer.inputs[1:3]):
        if name:
            array = network.constant(name)
            if array is None or array.size != 1:
                return None
            limits[at] = float(array.item())
    low, high = limits
    if low == 0.0 and high in (6.0, MOST):
        return "relu6" if high == 6.0 else "relu", {}
    return ("clamp", {"low": low, "high": high}) if -MOST <= low <= high <= MOST else None


READERS: Mapping[str, Callable[[Layer, Network], Bend]] = {
    **{op: _named(name) for op, name in named("onnx").items()},
    "Clip": _clip,
    "Gelu": _gelu,
    "LeakyRelu": _leaky_relu,
    "com.microsoft.Gelu": _named("gelu"),
}
