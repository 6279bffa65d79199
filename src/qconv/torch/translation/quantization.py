"""Conversions of PT2E from and to integers, per tensor and per channel.

ONNX's QuantizeLinear divides by the scale, where PyTorch multiplies by its reciprocal: next to a tie, the two round to
neighbouring integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qconv.dtypes import RANGES
from qconv.torch.arrays import name_of
from qconv.torch.pattern import DEQUANTIZE, PER_TENSOR, QUANTIZE, Quantized, Unmatched, dequantized, quantized
from qconv.torch.translation.node_layers import NodeLayers, Translate

INTEGERS = ("int8", "uint8", "int16", "uint16")


def _parameters(layers: NodeLayers, one: Quantized | None) -> tuple[Quantized, str, tuple[str, str], dict[str, Any]]:
    """Return the integers, their type, the scale and the zero point, and the axis, if there is one per channel."""
    if one is None:
        raise Unmatched("the graph computes its scale or its zero point")
    integers = name_of(one.dtype)
    if integers not in INTEGERS:
        raise Unmatched(f"its integers are {integers}; expressions convert {', '.join(INTEGERS)}")
    if one.axis is None:
        numbers = layers.number(one.scale, "float32"), layers.number(one.zero_point, integers)
        return one, integers, numbers, {}
    layers.x(one.scale), layers.x(one.zero_point)
    numbers = layers.cast(one.scale.name, "float32"), layers.cast(one.zero_point.name, "int32")
    return one, integers, numbers, {"axis": one.axis}


def _quantize(layers: NodeLayers) -> None:
    one, integers, numbers, axis = _parameters(layers, quantized(layers.node))
    x = layers.x("input")
    if (one.low, one.high) == RANGES[integers]:
        layers.result("QuantizeLinear", x, *numbers, **axis)
        return
    made = layers.made("QuantizeLinear", (x, *numbers), integers, **axis)
    layers.result("Clip", made, layers.number(one.low, integers), layers.number(one.high, integers))


def _dequantize(layers: NodeLayers) -> None:
    _, _, numbers, axis = _parameters(layers, dequantized(layers.node))
    layers.result("DequantizeLinear", layers.x("input"), *numbers, **axis)


KINDS = (*PER_TENSOR, "per_channel.default")
TABLE: Mapping[str, Translate] = {
    **{f"{QUANTIZE}{kind}": _quantize for kind in KINDS},
    **{f"{DEQUANTIZE}{kind}": _dequantize for kind in KINDS},
}
