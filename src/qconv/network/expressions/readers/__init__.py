"""Readers of layers as expressions, by ONNX's names of ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.network.expressions.lazy import Lazy, Reader
from qconv.network.expressions.readers import (
    activations,
    elementwise,
    joining,
    movement,
    products,
    quantization,
    quantized,
    reductions,
    resizing,
    windows,
)

READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **elementwise.READERS,
    **activations.READERS,
    **quantization.READERS,
    **quantized.READERS,
    **movement.READERS,
    **joining.READERS,
    **resizing.READERS,
    **windows.READERS,
    **reductions.READERS,
    **products.READERS,
}
# Ops that read each element of an input several times, or in an order of their own, or compute it where they do not use
# it.
FOLDING = quantized.FOLDING | frozenset(
    (*reductions.READERS, *products.READERS, *resizing.READERS, *windows.READERS, "Concat")
)
