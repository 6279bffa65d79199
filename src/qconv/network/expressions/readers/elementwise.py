"""Elementwise functions with broadcasting: arithmetic, comparisons, logic, bits and conversions. Each rounds or wraps
once, to the type of its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import inf

import numpy as np

from qconv.expression.function import BOOL, FLOAT
from qconv.expression.node import Node, Number, call
from qconv.network.expressions.lazy import (
    Array,
    Indices,
    Lazy,
    Reader,
    broadcast,
    check_saturates,
    converted,
    narrowed,
    number,
    stored,
)
from qconv.network.graph.served import Unserved

# A function of nodes that makes a node.
Function = Callable[..., Node]
# An element by its index.
At = Callable[[Indices], Node]

# Ops that a function of expressions is.
UNARY = {
    "Abs": "absolute",
    "Neg": "negate",
    "Sign": "sign",
    "Not": "logical_not",
    "BitwiseNot": "bit_not",
    "Ceil": "ceil",
    "Floor": "floor",
    "Round": "round",
    "Sqrt": "sqrt",
    "IsNaN": "is_nan",
    "Exp": "exp",
    "Log": "log",
    "Erf": "erf",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
}
BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_or_equal",
    "And": "bit_and",
    "Or": "bit_or",
    "Xor": "bit_xor",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}
SWAPPED = {"Greater": "less", "GreaterOrEqual": "less_or_equal"}
# Any number of inputs, combined from the first to the last.
VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def elementwise(reader: Reader, function: Function, count: int) -> Lazy:
    """Return a function of the elements of `count` inputs, which are broadcast."""
    inputs = [reader.x(number) for number in range(count)]
    shape, dtype = broadcast(*inputs), reader.y_dtype
    elements = [one.expanded(shape) for one in inputs]
    return Lazy(shape, dtype, lambda indices: narrowed(function(*(at(indices) for at in elements)), dtype))


def _op(function: str, count: int) -> Callable[[Reader], Lazy]:
    return lambda reader: elementwise(reader, partial(call, function), count)


def _swapped(function: str) -> Callable[[Reader], Lazy]:
    return lambda reader: elementwise(reader, lambda a, b: call(function, b, a), 2)


def _variadic(function: str) -> Callable[[Reader], Lazy]:
    return lambda reader: elementwise(reader, lambda *nodes: _all(function, nodes), len(reader.inputs))


def _all(function: str, nodes: tuple[Node, ...]) -> Node:
    return reduce(lambda a, b: call(function, a, b), nodes)


def mean(reader: Reader) -> Lazy:
    count = len(reader.inputs)
    return elementwise(reader, lambda *nodes: call("divide", _all("add", nodes), Number(float(count))), count)


def reciprocal(reader: Reader) -> Lazy:
    return elementwise(reader, lambda x: call("divide", Number(1.0), x), 1)


def modulo(reader: Reader) -> Lazy:
    """Read Mod: with `fmod` the remainder has the sign of the dividend, without that of the divisor."""
    if reader.attribute("fmod", 0):
        return elementwise(reader, partial(call, "remainder"), 2)
    return elementwise(reader, _float_modulo if reader.x().computed == FLOAT else partial(call, "modulo"), 2)


def _float_modulo(a: Node, b: Node) -> Node:
    zero, rest = Number(0.0), call("remainder", a, b)
    has_other_sign = call("bit_xor", call("less", rest, zero), call("less", b, zero))
    is_exact = call("equal", rest, zero)
    is_kept = call("bit_or", is_exact, call("logical_not", has_other_sign))
    return call("select", is_kept, rest, call("add", rest, b))


def shift(reader: Reader) -> Lazy:
    """Read BitShift. To the right, signs fill the bits of signed numbers."""
    is_left = reader.attribute("direction") == "LEFT"
    return elementwise(reader, partial(call, "shift_left") if is_left else _shifted_right, 2)


def _shifted_right(x: Node, by: Node) -> Node:
    above = call("shift_right", x, by)
    below = call("bit_not", call("shift_right", call("bit_not", x), by))
    return call("select", call("less", x, number(0, x.dtype)), below, above)


def clip(reader: Reader) -> Lazy:
    """Read Clip, whose limits are optional."""
    limits = [(at, function) for at, function in ((1, "maximum"), (2, "minimum")) if reader.has(at)]
    x, dtype = reader.x(), reader.y_dtype
    elements = [(function, reader.x(at).expanded(x.shape)) for at, function in limits]

    def of(indices: Indices) -> Node:
        return reduce(lambda node, limit: call(limit[0], node, limit[1](indices)), elements, x.at(indices))

    return Lazy(x.shape, dtype, of)


def where(reader: Reader) -> Lazy:
    return elementwise(reader, partial(call, "select"), 3)


def cast(reader: Reader) -> Lazy:
    """Read Cast and CastLike. Floats become integers as in ONNX Runtime: truncated, and wrapped to 8 and 16 bits. 8-bit
    floats saturate."""
    x, dtype = reader.x(), reader.y_dtype
    check_saturates(reader)
    return Lazy(x.shape, dtype, lambda indices: converted(x.at(indices), dtype))


def is_infinite(reader: Reader) -> Lazy:
    signs = [sign for sign, name in ((1, "positive"), (-1, "negative")) if reader.attribute(f"detect_{name}", 1)]

    def infinite(x: Node) -> Node:
        found = [call("equal", x, Number(sign * inf)) for sign in signs]
        return _all("bit_or", (*found, Number(False, BOOL)))

    return elementwise(reader, infinite, 1)


# Functions in the place of powers with a constant exponent.
POWERS: Mapping[float, Function] = {
    0.0: lambda x: number(1, x.dtype),
    1.0: lambda x: x,
    2.0: lambda x: call("multiply", x, x),
    3.0: lambda x: call("multiply", call("multiply", x, x), x),
    0.5: lambda x: call("sqrt", x),
    -0.5: lambda x: call("divide", Number(1.0), call("sqrt", x)),
    -1.0: lambda x: call("divide", number(1, x.dtype), x),
}
# Larger exponents give powers of an even base that wrap to 0.
EXPONENT_BITS = 7


def power(reader: Reader) -> Lazy:
    """Read Pow. The base decides the type of the result."""
    exponent, is_float = reader.optional(1), reader.x().computed == FLOAT
    known = float(exponent.reshape(-1)[0]) if exponent is not None and exponent.size == 1 else None
    if known is not None and known in POWERS and (is_float or known == int(known)):
        return elementwise(reader, lambda x, _: POWERS[known](x), 2)
    return elementwise(reader, _float_power if is_float else _integer_power, 2)


def _float_power(x: Node, by: Node) -> Node:
    return call("power", x, converted(by, "float32"))


def _integer_power(x: Node, by: Node) -> Node:
    """Return a power with an integer base, exactly where the exponent is a whole number."""
    whole = _whole_power(x, converted(by, x.dtype))
    if by.dtype != FLOAT:
        return whole
    broken = converted(_float_power(converted(x, "float32"), by), x.dtype)
    return call("select", call("equal", by, call("floor", by)), whole, broken)


def _whole_power(x: Node, by: Node) -> Node:
    """Multiply the squares of squares that the bits of the exponent name. Powers with negative exponents are rounded
    toward zero."""

    def constant(value: int) -> Number:
        return number(value, x.dtype)

    x = call("select", call("less", by, constant(0)), call("divide", constant(1), x), x)
    by = call("absolute", by)
    # The last bit of a larger exponent decides the powers of -1.
    by = call("minimum", by, call("add", constant(2**EXPONENT_BITS - 2), call("bit_and", by, constant(1))))
    made: Node = constant(1)
    for bit in range(EXPONENT_BITS):
        is_set = call("to_bool", call("bit_and", by, constant(2**bit)))
        made = call("select", is_set, call("multiply", made, x), made)
        x = call("multiply", x, x)
    return made


def dropout(reader: Reader) -> Lazy:
    """Read an output of Dropout of inference, which changes nothing."""
    if reader.has(2) and np.any(reader.constant(2, "training_mode")):
        raise Unserved("a Dropout that trains draws random numbers")
    x = reader.x()
    if reader.attribute("output", 0):  # the mask of what is kept
        return Lazy(x.shape, BOOL, lambda indices: Number(True, BOOL))
    return Lazy(x.shape, x.dtype, x.at)


def batch_normalization(reader: Reader) -> Lazy:
    """Read BatchNormalization of inference: a factor and a summand per channel, folded where they are constant."""
    if reader.attribute("training_mode", 0):
        raise Unserved("a BatchNormalization that trains computes the mean of the batch")
    x, dtype = reader.x(), reader.y_dtype
    epsilon = float(reader.attribute("epsilon", 1e-5))
    given = [reader.optional(number) for number in range(1, 5)]
    known = [np.asarray(each, np.float32) for each in given if each is not None]
    factors, summands = _folded(reader, known, epsilon) if len(known) == 4 else _computed(reader, epsilon)
    axis = min(1, len(x.shape) - 1)

    def at(indices: Indices) -> Node:
        channel = (indices[axis],)
        return narrowed(call("add", call("multiply", x.at(indices), factors(channel)), summands(channel)), dtype)

    return Lazy(x.shape, dtype, at)


def _folded(reader: Reader, known: Sequence[Array], epsilon: float) -> tuple[At, At]:
    """Return the factor and the summand of a channel, rounded as ONNX Runtime rounds them."""
    scale, bias, mean, variance = known
    with np.errstate(all="ignore"):  # such as of a variance below 0
        factors = scale * (np.float32(1) / np.sqrt(variance + np.float32(epsilon)))
        folded = (factors, bias - mean * factors)
    factor, summand = (stored(reader.add(each), each.shape, "float32") for each in folded)
    return factor.at, summand.at


def _computed(reader: Reader, epsilon: float) -> tuple[At, At]:
    scale, bias, mean, variance = (reader.x(number) for number in range(1, 5))

    def factor(channel: Indices) -> Node:
        deviation = call("sqrt", call("add", variance.at(channel), Number(epsilon)))
        return call("multiply", scale.at(channel), call("divide", Number(1.0), deviation))

    def summand(channel: Indices) -> Node:
        return call("subtract", bias.at(channel), call("multiply", mean.at(channel), factor(channel)))

    return factor, summand


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **{op: _op(function, 1) for op, function in UNARY.items()},
    **{op: _op(function, 2) for op, function in BINARY.items()},
    **{op: _swapped(function) for op, function in SWAPPED.items()},
    **{op: _variadic(function) for op, function in VARIADIC.items()},
    "BatchNormalization": batch_normalization,
    "BitShift": shift,
    "Cast": cast,
    "CastLike": cast,
    "Clip": clip,
    "Dropout": dropout,
    "IsInf": is_infinite,
    "Mean": mean,
    "Mod": modulo,
    "Pow": power,
    "Reciprocal": reciprocal,
    "Where": where,
}
