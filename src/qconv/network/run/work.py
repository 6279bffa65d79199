"""The multiplications and additions of a layer that no kernel computes, from the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from qconv.network.graph.graph import Layer
from qconv.network.graph.value import Shape

# Returns a tensor's shape, or None while it is unknown.
ShapeOf = Callable[[str], Shape | None]
# Ops that multiply, with the number of their second operand among the inputs.
CONVOLUTIONS = {
    **dict.fromkeys(("Conv", "ConvInteger", "com.microsoft.FusedConv", "com.microsoft.nchwc.Conv"), 1),
    **dict.fromkeys(("QLinearConv", "com.microsoft.QLinearConv"), 3),
}
PRODUCTS = {
    **dict.fromkeys(("MatMul", "MatMulInteger", "com.microsoft.FusedMatMul"), 1),
    **dict.fromkeys(("com.microsoft.DynamicQuantizeMatMul", "com.microsoft.MatMulIntegerToFloat"), 1),
    **dict.fromkeys(("QLinearMatMul", "com.microsoft.QGemm"), 3),
    **dict.fromkeys(("Gemm", "com.microsoft.FusedGemm"), 1),
}
TRANSPOSED = {"ConvTranspose": 1}


def operations_of(layer: Layer, shape_of: ShapeOf) -> int | None:
    """Return the number of multiplies and adds, 0 for an op that does not multiply, or None while a shape is
    unknown."""
    counts = [_operations(part, shape_of) for part in layer.unfolded]
    return None if None in counts else sum(count or 0 for count in counts)


def _operations(layer: Layer, shape_of: ShapeOf) -> int | None:
    for ops in (CONVOLUTIONS, TRANSPOSED, PRODUCTS):
        if layer.op in ops:
            x, w, y = (shape_of(name) for name in (layer.inputs[0], layer.inputs[ops[layer.op]], layer.outputs[0]))
            if x is None or w is None or y is None:
                return None
            if ops is PRODUCTS:
                return 2 * prod(y) * x[0 if layer.attributes.get("transA", 0) else -1]
            # Each output adds up the filter's weights; in a transposed convolution, each input is spread over them.
            return 2 * prod(x if ops is TRANSPOSED else y) * prod(w[1:])
    return 0
