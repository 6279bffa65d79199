"""Readers of layers as expressions, by ONNX's names of ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.network.expressions.lazy import Lazy, Reader
from qconv.network.expressions.readers import activations, elementwise, movement, products, quantization, reductions

READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **elementwise.READERS,
    **activations.READERS,
    **quantization.READERS,
    **movement.READERS,
    **reductions.READERS,
    **products.READERS,
}
# Ops that read each element of an input several times, or in an order of their own.
FOLDING = frozenset((*reductions.READERS, *products.READERS))
