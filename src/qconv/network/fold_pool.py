"""Folds the max pool behind an integer convolution into it: one kernel, which changes no bit."""

from __future__ import annotations

from dataclasses import replace

from qconv.network.graph import Network
from qconv.network.integer import IntegerConvolution
from qconv.network.pooling import QuantizedPool
from qconv.tensor_ops import MaxPool


def with_pool(network: Network, convolution: IntegerConvolution, pool: QuantizedPool) -> IntegerConvolution | None:
    """None where one kernel does not compute both."""
    if pool.kind is not MaxPool or convolution.y != pool.x or network.only_consumer(convolution.y) != pool.layer:
        return None
    # Nothing stands between the sums that are requantized and the pool, and one pool is all.
    if not convolution.is_single:
        return None
    gaps = pool.attributes.get("dilations") or ()
    is_image = convolution.axes == len(pool.attributes["kernel_shape"]) == 2
    if not is_image or any(gap != 1 for gap in gaps) or convolution.out_type != pool.dtype:
        return None
    layer = replace(convolution.layer, outputs=pool.layer.outputs, parts=(convolution.layer, pool.layer))
    return replace(convolution, layer=layer, y=pool.y, pooled=pool)
