"""Means over the pixels of an image, between DequantizeLinear and QuantizeLinear, as global pools of integers.

Exporters write the pool of a squeeze-and-excitation gate as ReduceMean."""

from __future__ import annotations

from typing import Any

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Unserved
from qconv.network.layers.between import Between
from qconv.network.layers.pooling import QuantizedPool
from qconv.tensor_ops import GlobalAveragePool
from qconv.tensor_ops.pooling import PoolParameters


def mean_between(between: Between) -> QuantizedPool:
    """Return a mean as a pool. Raise ValueError where it is none."""
    network, mean = between.network, between.layer
    x, dtype = between.first.x()
    if network.tensor(between.y).dtype != dtype or not _is_of_pixels(network, mean, x):
        raise Unserved("it is over other axes, or its output has another type")
    parameters = between.numbers
    PoolParameters.of(parameters, {"x_zero_point": dtype, "y_zero_point": dtype})
    keeps_axes = bool(mean.attributes.get("keepdims", 1))
    return QuantizedPool(between.as_one(), x, between.y, GlobalAveragePool, dtype, parameters, {}, keeps_axes)


def _is_of_pixels(network: Network, mean: Layer, x: str) -> bool:
    """True for a mean over all axes behind the channels."""
    rank = len(network.tensor(x).shape or ())
    if mean.op == "GlobalAveragePool" or rank < 3:
        return rank >= 3
    axes: Any = mean.attributes.get("axes")
    if axes is None and len(mean.inputs) > 1:
        axes = network.constant(mean.inputs[1])
    return axes is not None and sorted(int(axis) % rank for axis in axes) == list(range(2, rank))
