"""Readers of layers as expressions, by ONNX's names of ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.network.expressions.lazy import Lazy, Reader
from qconv.network.expressions.readers import (
    activations,
    elementwise,
    gathering,
    joining,
    movement,
    ordering,
    products,
    quantization,
    quantized,
    reductions,
    resizing,
    sampling,
    windows,
    without_zero_point,
)
from qconv.network.graph.graph import Layer, Network

READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **elementwise.READERS,
    **activations.READERS,
    **quantization.READERS,
    **quantized.READERS,
    **movement.READERS,
    **joining.READERS,
    **gathering.READERS,
    **ordering.READERS,
    **sampling.READERS,
    **resizing.READERS,
    **windows.READERS,
    **reductions.READERS,
    **products.READERS,
    **without_zero_point.READERS,
}
# Ops that read each element of an input several times, or in an order of their own, or compute it where they do not use
# it.
_OF_MANY = (ordering, products, reductions, resizing, sampling, windows)
FOLDING = quantized.FOLDING.union(("Concat",), *(readers.READERS for readers in _OF_MANY))


def read_by_place(layer: Layer, network: Network) -> frozenset[str]:
    """Return the inputs of a layer whose elements have computed places, so that they have to be in memory."""
    if layer.op in sampling.READERS or (layer.op in gathering.READERS and layer.inputs[1] not in network.constants):
        return frozenset(layer.inputs[:1])
    return frozenset()
