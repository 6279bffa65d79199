"""Elementwise functions with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qconv.expression.node import call
from qconv.network.expressions.lazy import Lazy, Reader, broadcast, clamped, narrowed, number

# Functions of expressions that are an op as they are.
UNARY = {"Abs": "absolute", "Neg": "negate", "Sqrt": "sqrt", "Exp": "exp", "Tanh": "tanh", "Sigmoid": "sigmoid"}
BINARY = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide"}


# The activations that ONNX Runtime fuses into products, with their numbers.
ACTIVATIONS: Mapping[str, Callable[[Any, list[float]], Any]] = {
    "Clip": lambda x, numbers: clamped(x, *(numbers or (0.0, 6.0)), "float32"),
    "LeakyRelu": lambda x, numbers: call(
        "select", call("less", x, number(0, "float32")), call("multiply", x, number(numbers[0], "float32")), x
    ),
    "Relu": lambda x, numbers: call("maximum", x, number(0, "float32")),
    "Sigmoid": lambda x, numbers: call("sigmoid", x),
    "Tanh": lambda x, numbers: call("tanh", x),
}


def elementwise(reader: Reader, function: Callable[..., Any], count: int) -> Lazy:
    """Return a function of the elements of `count` inputs, which are broadcast."""
    inputs = [reader.x(number) for number in range(count)]
    shape, dtype = broadcast(*inputs), reader.y_dtype
    elements = [one.expanded(shape) for one in inputs]
    return Lazy(shape, dtype, lambda indices: narrowed(function(*(at(indices) for at in elements)), dtype))


def _op(function: str, count: int) -> Callable[[Reader], Lazy]:
    return lambda reader: elementwise(reader, lambda *nodes: call(function, *nodes), count)


def relu(reader: Reader) -> Lazy:
    dtype = reader.y_dtype
    return elementwise(reader, lambda x: call("maximum", x, number(0, dtype)), 1)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **{op: _op(function, 1) for op, function in UNARY.items()},
    **{op: _op(function, 2) for op, function in BINARY.items()},
    "Relu": relu,
}
