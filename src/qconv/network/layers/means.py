"""Means over the pixels of an image, between DequantizeLinear and QuantizeLinear, as global pools of integers.

Exporters write the pool of a squeeze-and-excitation gate as ReduceMean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Unserved
from qconv.network.layers.pooling import QuantizedPool
from qconv.tensor_ops import GlobalAveragePool
from qconv.tensor_ops.pooling import PoolParameters
from qconv.tensor_ops.problem import BYTES

# The inputs of DequantizeLinear and QuantizeLinear that are numbers.
X_NUMBERS, Y_NUMBERS = {"x_scale": 1, "x_zero_point": 2}, {"y_scale": 1, "y_zero_point": 2}


def mean_between(network: Network, mean: Layer, last: Layer) -> QuantizedPool:
    """Return a mean, with what it reads and the QuantizeLinear behind it. Raise ValueError where it is no pool."""
    first = network.producers.get(mean.inputs[0])
    if first is None or first.op != "DequantizeLinear":
        raise Unserved("the floats that it reads are not dequantized")
    x, y = first.inputs[0], last.outputs[0]
    dtype = network.tensor(x).dtype
    if dtype not in BYTES or network.tensor(y).dtype != dtype or not _is_of_pixels(network, mean, x):
        raise Unserved("it is over other axes, or its output has another type")
    if any(layer.attributes.get("block_size", 0) for layer in (first, last)):
        raise Unserved("it has scales of blocks")
    parameters: dict[str, Any] = Reading(first, network).scales(X_NUMBERS, 1)
    parameters |= Reading(last, network).scales(Y_NUMBERS, 1)
    PoolParameters.of(parameters, {"x_zero_point": dtype, "y_zero_point": dtype})
    layer = replace(last, op=mean.op, inputs=(x,), parts=(first, mean, last), is_exact=False)
    keeps_axes = bool(mean.attributes.get("keepdims", 1))
    return QuantizedPool(layer, x, y, GlobalAveragePool, dtype, parameters, {}, keeps_axes)


def _is_of_pixels(network: Network, mean: Layer, x: str) -> bool:
    """True for a mean over all axes behind the channels."""
    rank = len(network.tensor(x).shape or ())
    if mean.op == "GlobalAveragePool" or rank < 3:
        return rank >= 3
    axes: Any = mean.attributes.get("axes")
    if axes is None and len(mean.inputs) > 1:
        axes = network.constant(mean.inputs[1])
    return axes is not None and sorted(int(axis) % rank for axis in axes) == list(range(2, rank))
