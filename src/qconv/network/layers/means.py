"""Means over the pixels of an image, between DequantizeLinear and QuantizeLinear, as global pools of integers.

Exporters write the pool of a squeeze-and-excitation gate as ReduceMean. A runtime that computes it in floats rounds the
mean differently: the two differ by at most one step of the output, where the mean is near the middle of two steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Served, Unserved
from qconv.network.layers.pooling import QuantizedPool
from qconv.tensor_ops import GlobalAveragePool
from qconv.tensor_ops.pooling import PoolParameters
from qconv.tensor_ops.problem import BYTES

MEANS = ("ReduceMean", "GlobalAveragePool")
# The inputs of DequantizeLinear and QuantizeLinear that are numbers.
X_NUMBERS, Y_NUMBERS = {"x_scale": 1, "x_zero_point": 2}, {"y_scale": 1, "y_zero_point": 2}


def fold_means(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold each such mean into one layer. Floats with other readers are computed for these as well."""
    folded: dict[str, Served] = dict(served)
    instead: dict[str, Layer] = {}
    for layer in network.layers:
        pool = _pool_before(network, layer) if layer.op == "QuantizeLinear" else None
        if pool is not None:
            folded[layer.name], instead[layer.name] = pool, pool.layer
    layers = tuple(instead.get(layer.name, layer) for layer in network.layers)
    return replace(network, layers=layers).without_unread(), folded


def _pool_before(network: Network, last: Layer) -> QuantizedPool | None:
    """Return the pool that ends with this QuantizeLinear, or None."""
    mean = network.producers.get(last.inputs[0])
    first = network.producers.get(mean.inputs[0]) if mean is not None and mean.op in MEANS else None
    if mean is None or first is None or first.op != "DequantizeLinear":
        return None
    x, y = first.inputs[0], last.outputs[0]
    dtype = network.tensor(x).dtype
    if dtype not in BYTES or network.tensor(y).dtype != dtype or not _is_of_pixels(network, mean, x):
        return None
    if any(layer.attributes.get("block_size", 0) for layer in (first, last)):
        return None
    try:
        parameters: dict[str, Any] = Reading(first, network).scales(X_NUMBERS, 1)
        parameters |= Reading(last, network).scales(Y_NUMBERS, 1)
        PoolParameters.of(parameters, {"x_zero_point": dtype, "y_zero_point": dtype})
    except (Unserved, ValueError):
        return None
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
