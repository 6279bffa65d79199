"""Activations: functions of one tensor, and of slopes and biases, that bend it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import pi, sqrt

from qconv.expression.node import Node, Number, call
from qconv.network.expressions.lazy import Lazy, Reader, clamped, converted, number
from qconv.network.expressions.readers.elementwise import elementwise

add, subtract, multiply, divide = (partial(call, name) for name in ("add", "subtract", "multiply", "divide"))
maximum, minimum, less, select = (partial(call, name) for name in ("maximum", "minimum", "less", "select"))
exp, log1p, tanh, sigmoid = (partial(call, name) for name in ("exp", "log1p", "tanh", "sigmoid"))
ZERO, ONE = Number(0.0), Number(1.0)


def relu(x: Node) -> Node:
    return maximum(x, number(0, x.dtype))


def leaky_relu(x: Node, alpha: Node) -> Node:
    return select(less(x, number(0, x.dtype)), multiply(x, alpha), x)


def thresholded_relu(x: Node, alpha: Node) -> Node:
    return select(less(alpha, x), x, ZERO)


def _below_one(x: Node) -> Node:
    """Return e**x - 1."""
    return subtract(exp(x), ONE)


def elu(x: Node, alpha: Node) -> Node:
    return select(less(x, ZERO), multiply(alpha, _below_one(x)), x)


def celu(x: Node, alpha: Node) -> Node:
    return select(less(x, ZERO), multiply(alpha, _below_one(divide(x, alpha))), x)


def selu(x: Node, alpha: Node, gamma: Node) -> Node:
    return multiply(gamma, elu(x, alpha))


def hard_sigmoid(x: Node, alpha: Node, beta: Node) -> Node:
    return clamped(add(multiply(alpha, x), beta), 0, 1, "float32")


def softplus(x: Node) -> Node:
    """Return ln(1 + e**x), without an e**x that overflows."""
    below = exp(call("negate", call("absolute", x)))
    return add(maximum(x, ZERO), log1p(below))


def softsign(x: Node) -> Node:
    return divide(x, add(ONE, call("absolute", x)))


def mish(x: Node) -> Node:
    return multiply(x, tanh(softplus(x)))


def swish(x: Node, alpha: Node) -> Node:
    return call("silu", x) if alpha == ONE else multiply(x, sigmoid(multiply(alpha, x)))


def gelu(x: Node) -> Node:
    return call("gelu", x)


def gelu_by_tanh(x: Node) -> Node:
    """Return the approximation x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    cube = multiply(multiply(x, x), x)
    inner = multiply(Number(sqrt(2 / pi)), add(x, multiply(Number(0.044715), cube)))
    return multiply(multiply(Number(0.5), x), add(ONE, tanh(inner)))


def shrink(x: Node, bias: Node, limit: Node) -> Node:
    above = select(less(limit, x), subtract(x, bias), ZERO)
    return select(less(x, call("negate", limit)), add(x, bias), above)


def _with(function: Callable[..., Node], *attributes: tuple[str, float]) -> Callable[[Reader], Lazy]:
    """Return the reader of a function of a tensor and of attributes, each with its default."""

    def read(reader: Reader) -> Lazy:
        numbers = [Number(float(reader.attribute(name, default))) for name, default in attributes]
        return elementwise(reader, lambda x: function(x, *numbers), 1)

    return read


def _read_gelu(reader: Reader) -> Lazy:
    return elementwise(reader, gelu_by_tanh if reader.attribute("approximate", "none") == "tanh" else gelu, 1)


def _biased(function: Callable[[Node], Node]) -> Callable[[Reader], Lazy]:
    """Return the reader of a function of the sum of a tensor and an optional bias."""

    def read(reader: Reader) -> Lazy:
        if not reader.has(1):
            return elementwise(reader, function, 1)
        return elementwise(reader, lambda x, bias: function(add(x, bias)), 2)

    return read


def _read_shrink(reader: Reader) -> Lazy:
    """Read Shrink, which computes integers in floats."""
    bias, limit = (Number(float(reader.attribute(name, default))) for name, default in (("bias", 0.0), ("lambd", 0.5)))
    dtype = reader.y_dtype
    return elementwise(reader, lambda x: converted(shrink(converted(x, "float32"), bias, limit), dtype), 1)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "Celu": _with(celu, ("alpha", 1.0)),
    "Elu": _with(elu, ("alpha", 1.0)),
    "Gelu": _read_gelu,
    "HardSigmoid": _with(hard_sigmoid, ("alpha", 0.2), ("beta", 0.5)),
    "HardSwish": _with(partial(call, "hardswish")),
    "LeakyRelu": _with(leaky_relu, ("alpha", 0.01)),
    "Mish": _with(mish),
    "PRelu": lambda reader: elementwise(reader, leaky_relu, 2),
    "Relu": _with(relu),
    "Selu": _with(selu, ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "Shrink": _read_shrink,
    "Softplus": _with(softplus),
    "Softsign": _with(softsign),
    "Swish": _with(swish, ("alpha", 1.0)),
    "ThresholdedRelu": _with(thresholded_relu, ("alpha", 1.0)),
    # Fused by ONNX Runtime's optimizer.
    "com.microsoft.BiasGelu": _biased(gelu),
    "com.microsoft.FastGelu": _biased(gelu_by_tanh),
    "com.microsoft.Gelu": _with(gelu),
    "com.microsoft.QuickGelu": _with(swish, ("alpha", 1.702)),
}
