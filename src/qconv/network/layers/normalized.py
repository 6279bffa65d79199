"""A BatchNormalization between DequantizeLinear and QuantizeLinear, as a depthwise 1x1 convolution of integers: with
constant statistics it scales and shifts each channel. Exporters leave it where no convolution stands in front of it."""

from __future__ import annotations

import numpy as np

from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Unserved
from qconv.network.layers.between import Between
from qconv.network.layers.convolution import IntegerConvolution, check_smallest
from qconv.tensor_ops.problem import BYTES

# The weight of every channel. The larger it is, the finer is the unit in which the shift is rounded.
WEIGHT = 127
# The largest shift in that unit, so that no sum leaves int32.
MOST_SHIFT = 2**30
EPSILON = 1e-5  # the default of BatchNormalization


def normalization_between(between: Between) -> IntegerConvolution:
    """Return a normalization as a convolution. Raise ValueError where it is none of integers."""
    network, layer, y = between.network, between.layer, between.y
    if layer.attributes.get("training_mode", 0):
        raise Unserved("it computes statistics")
    x, x_type = between.first.x()
    rank, out_type = len(network.tensor(x).shape or ()), str(network.tensor(y).dtype)
    if rank not in (3, 4) or out_type not in BYTES:
        raise Unserved("its input has not one or two axes behind the channels, or its output is no bytes")
    makers = [network.producers[name] for name in layer.inputs[1:] if name in network.producers]
    factors, shifts = _factors_and_shifts(Reading(layer, network))
    given = between.numbers
    units = np.maximum(abs(factors) / WEIGHT, abs(shifts) / float(given["x_scale"]) / MOST_SHIFT)
    units[units == 0] = 1.0  # a channel of zeros
    given["w_scale"] = units.astype(np.float32)
    given["bias"] = np.rint(shifts / (float(given["x_scale"]) * units)).astype(np.int32)
    weights = np.rint(factors / units).astype(np.int8).reshape(-1, 1, 1, 1)
    one = between.as_one(makers)
    made = IntegerConvolution(one, x, y, x_type, weights, out_type, given, {"group": len(weights)}, axes=rank - 2)
    check_smallest(made)
    return made


def _factors_and_shifts(reading: Reading) -> tuple[Array, Array]:
    """Return the factor and the shift of each channel, in float64."""
    names = ("the scale", "the shift", "the mean", "the variance")
    scale, shift, mean, variance = (_real(reading, at, name) for at, name in enumerate(names, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = scale / np.sqrt(variance + float(reading.layer.attributes.get("epsilon", EPSILON)))
        shifts = shift - mean * factors
    if not np.isfinite(factors).all() or not np.isfinite(shifts).all():
        raise Unserved("its factors are not finite")
    return factors, shifts


def _real(reading: Reading, at: int, what: str) -> Array:
    """Return a constant, which quantizers may have quantized, in float64."""
    maker = reading.network.producers.get(reading.name(at))
    if maker is None or maker.op != "DequantizeLinear":
        return reading.constant(at, what).astype(np.float64).reshape(-1)
    quantized = Reading(maker, reading.network)
    scale, zero = quantized.constant(1, f"the scale of {what}"), quantized.optional(2, f"the zero point of {what}")
    if scale.size != 1:
        raise Unserved(f"{what} has {scale.size} scales")
    steps = quantized.constant(0, what).astype(np.float32) - np.float32(0 if zero is None else zero.item())
    return (steps * scale.astype(np.float32)).astype(np.float64).reshape(-1)
