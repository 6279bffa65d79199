"""Folds a clamp behind an integer convolution into it, where that changes no bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qconv.network.graph import Layer, Network
from qconv.network.integer import IntegerConvolution
from qconv.network.served import Served

# In steps of the output's scale, further from zero than any byte.
BEYOND = 512.0


def fold_clamps(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Convolution, DequantizeLinear, Relu or Clip, QuantizeLinear: one convolution, if both scales and both zero points
    are the same.

    Then QuantizeLinear gives back every integer that DequantizeLinear was given, because the error of the product and
    of the quotient together is far below half a step. Both are monotone, so that a clamp between them is one of the
    integers; and rounding is monotone, so that it may as well come before the convolution's own rounding."""
    layers, folded = {layer.name: layer for layer in network.layers}, dict(served)
    for name, convolution in served.items():
        chain = _chain(network, convolution) if isinstance(convolution, IntegerConvolution) else None
        if chain is None or not isinstance(convolution, IntegerConvolution):
            continue
        clamp = _clamp(network, chain[1], convolution)
        if clamp is None:
            continue
        activation, limits = clamp
        layer = replace(convolution.layer, outputs=chain[-1].outputs, parts=(convolution.layer, *chain))
        parameters = {**convolution.parameters, **limits}
        folded[name] = replace(
            convolution, layer=layer, y=layer.outputs[0], activation=activation, parameters=parameters
        )
        layers[name] = layer
        for gone in chain:
            del layers[gone.name]
    return replace(network, layers=tuple(layers.values())), folded


def _chain(network: Network, convolution: IntegerConvolution) -> tuple[Layer, Layer, Layer] | None:
    """The three layers behind it that nobody else reads from."""
    found = []
    name = convolution.y
    for ops in (("DequantizeLinear",), ("Relu", "Clip"), ("QuantizeLinear",)):
        layer = network.only_consumer(name)
        if layer is None or layer.op not in ops or layer.inputs[0] != name:
            return None
        found.append(layer)
        (name,) = layer.outputs
    first, clamp, last = found
    own = _output_of(convolution)
    same = own is not None and own == _linear(network, first) == _linear(network, last)
    return (first, clamp, last) if same else None


def _output_of(convolution: IntegerConvolution) -> tuple[float, int, str] | None:
    given = convolution.parameters
    if "y_scale" not in given:
        return None
    return float(given["y_scale"]), int(given["y_zero_point"]), convolution.out_type


def _linear(network: Network, layer: Layer) -> tuple[float, int, str] | None:
    """Scale, zero point and integer type of a layer that quantizes or dequantizes by one float32 scale."""
    arrays = [network.constant(name) if name else None for name in (*layer.inputs[1:], "")[:2]]
    scale, zero = arrays
    if scale is None or scale.size != 1 or scale.dtype != np.float32 or zero is None or zero.size != 1:
        return None
    return float(scale.item()), int(zero.item()), str(zero.dtype)


def _clamp(network: Network, layer: Layer, convolution: IntegerConvolution) -> tuple[str, dict[str, Any]] | None:
    if layer.op == "Relu":
        return "relu", {}
    step = float(convolution.parameters["y_scale"])
    limits = {"low": np.float32(-BEYOND * step), "high": np.float32(BEYOND * step)}
    for number, (name, attribute) in enumerate((("low", "min"), ("high", "max")), 1):
        tensor = layer.inputs[number] if number < len(layer.inputs) else ""
        if tensor:
            array = network.constant(tensor)
            if array is None or array.size != 1:
                return None
            limits[name] = np.float32(array.item())
        elif attribute in layer.attributes:
            limits[name] = np.float32(layer.attributes[attribute])
    finite = np.isfinite(list(limits.values())).all() and limits["low"] <= limits["high"]
    return ("clamp", dict(limits)) if finite else None
