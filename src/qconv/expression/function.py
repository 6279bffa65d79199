"""Scalar functions of expressions: each in NumPy, with the bits of the C++ function of its name in
templates/families/expression/functions.j2.

The arithmetic is of float32, int32, int64 and bool. Integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.activation import flush, gelu, hardswish, sigmoid, silu, tanh
from qconv.arithmetic.fma import fma
from qconv.arithmetic.narrow import narrow
from qconv.dtypes import FLOAT8, RANGES
from qconv.expression import elementary

Array = NDArray[Any]

FLOAT, INT, LONG, BOOL = "float32", "int32", "int64", "bool"
CTYPES = {FLOAT: "float", INT: "int", LONG: "long long", BOOL: "bool"}
# The type in which the elements of a tensor are computed. Loads widen, stores narrow.
COMPUTED = {
    **dict.fromkeys(("float16", "bfloat16", "float32", *FLOAT8), FLOAT),
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), INT),
    "int64": LONG,
    "bool": BOOL,
}
# The functions that round a value to a narrower float.
ROUNDED = {"float16": "to_half", "bfloat16": "to_bfloat16", **{dtype: f"to_{dtype}" for dtype in FLOAT8}}
# Instructions of a function that computes an exponential, about.
OF_EXPONENTIAL = 16
NUMBERS, INTEGERS, ALL = (FLOAT, INT, LONG), (INT, LONG), (FLOAT, INT, LONG, BOOL)


@dataclass(frozen=True)
class Function:
    """A function of `arity` arguments of one of the types that it takes, all of the same one. `result` is its type, ""
    for that of the last argument. `instructions` are about those of a call."""

    name: str
    arity: int
    numpy: Callable[..., Array]
    takes: tuple[str, ...] = NUMBERS
    result: str = ""
    instructions: int = 1


def _divide(a: Array, b: Array) -> Array:
    if a.dtype == np.float32:
        return np.divide(a, b)
    by = np.where((b == 0) | (b == -1), b.dtype.type(1), b)
    floor = a // by
    whole = floor + ((a % by != 0) & ((a < 0) != (by < 0)))
    return np.where(b == 0, a.dtype.type(0), np.where(b == -1, -a, whole)).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    """Return the remainder with the sign of the dividend."""
    if a.dtype == np.float32:
        return np.fmod(a, b)
    return np.asarray(a - _divide(a, b) * b)


def _modulo(a: Array, b: Array) -> Array:
    """Return the remainder with the sign of the divisor; 0 for a divisor of 0."""
    rest = _remainder(a, b)
    moved = np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return np.where(b == 0, a.dtype.type(0), moved)


def _shifted(a: Array, by: Array, left: bool) -> Array:
    """Shift unsigned numbers held in wider or equal signed ones. Shifts by all bits or more give 0."""
    bits = 8 * a.dtype.itemsize
    unsigned = a.view(np.uint32 if bits == 32 else np.uint64)
    few = np.where((by < 0) | (by >= bits), 0, by).astype(unsigned.dtype)
    made: Array = (unsigned << few if left else unsigned >> few).view(a.dtype)
    return np.where((by < 0) | (by >= bits), a.dtype.type(0), made)


def _maximum(a: Array, b: Array) -> Array:
    """Return the larger one, NaN if an argument is. Of two zeros, the positive one is larger."""
    return np.where((a > b) | (a != a) | ((a == b) & _is_negative(b)), a, b)


def _minimum(a: Array, b: Array) -> Array:
    return np.where((a < b) | (a != a) | ((a == b) & _is_negative(a)), a, b)


def _is_negative(a: Array) -> Array:
    return np.signbit(a) if a.dtype == np.float32 else a < 0


def _nearest(a: Array) -> Array:
    """Return the nearest integer, the even one of two; it saturates, and NaN is 0."""
    return _to_integer("int32")(np.rint(a))


def _select(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


def _sign(a: Array) -> Array:
    return np.where(a > 0, a.dtype.type(1), np.where(a < 0, a.dtype.type(-1), np.where(a == 0, a.dtype.type(0), a)))


def _to_integer(dtype: str) -> Callable[[Array], Array]:
    """Return a conversion. A float is truncated and saturates, NaN is 0; an integer wraps."""
    low, high = RANGES[dtype]

    def convert(a: Array) -> Array:
        if a.dtype == np.float32:
            wide = np.where(np.isnan(a), 0, a).astype(np.float64)
            inside = np.where((wide > low) & (wide < high), wide, 0).astype(np.int64)
            return np.where(wide <= low, low, np.where(wide >= high, high, inside)).astype(dtype)
        return a.astype(dtype)

    return convert


def _quantize(a: Array, scale: Array, zero: Array, low: Array, high: Array) -> Array:
    """Return a / scale, rounded half to even, plus the zero point, clamped. The quotient is a times the inverse of the
    scale, which all elements share, and a correction: it has the bits of a division, except of extreme scales. From
    2**23 on it is not corrected, because there the result is clamped."""
    inverse = np.float32(1) / scale
    rough = a * inverse
    exact = fma(fma(-scale, rough, a), inverse, rough)
    quotient = np.where(np.abs(rough) < np.float32(2**23), exact, rough)
    return _to_integer("int32")(_minimum(_maximum(np.rint(quotient) + zero, low), high))


def _narrow(dtype: str) -> Callable[[Array], Array]:
    """Return a conversion to a narrower integer, which wraps, held in int32."""
    return lambda a: a.astype(dtype).astype(np.int32)


def _rounded(dtype: str) -> Callable[[Array], Array]:
    """Return a conversion to a narrower float, held in float32."""
    return lambda a: narrow(a, dtype).astype(np.float32)


def _curve(name: str, numpy: Callable[[Array], Array], instructions: int = OF_EXPONENTIAL) -> Function:
    """Return a curve of the epilogue."""
    return Function(name, 1, numpy, (FLOAT,), instructions=instructions)


def _elementary(name: str, arity: int = 1) -> Function:
    return Function(name, arity, getattr(elementary, name), (FLOAT,), instructions=OF_EXPONENTIAL)


def _each(*functions: Function) -> dict[str, Function]:
    return {one.name: one for one in functions}


def _comparison(name: str, numpy: Callable[..., Array]) -> Function:
    return Function(name, 2, numpy, ALL, BOOL)


FUNCTIONS = _each(
    Function("add", 2, lambda a, b: a + b),
    Function("subtract", 2, lambda a, b: a - b),
    Function("multiply", 2, lambda a, b: a * b),
    Function("fma", 3, fma, (FLOAT,)),
    Function("divide", 2, _divide, instructions=8),
    Function("modulo", 2, _modulo, INTEGERS),
    Function("remainder", 2, _remainder),
    Function("maximum", 2, _maximum),
    Function("minimum", 2, _minimum),
    Function("negate", 1, lambda a: -a),
    Function("absolute", 1, np.abs),
    Function("flush", 1, flush, (FLOAT,)),
    Function("sign", 1, _sign),
    Function("floor", 1, np.floor, (FLOAT,)),
    Function("ceil", 1, np.ceil, (FLOAT,)),
    Function("round", 1, np.rint, (FLOAT,)),
    Function("trunc", 1, np.trunc, (FLOAT,)),
    Function("sqrt", 1, np.sqrt, (FLOAT,)),
    _elementary("exp"),
    _elementary("log"),
    _elementary("log1p"),
    _elementary("power", arity=2),
    _elementary("erf"),
    _elementary("sin"),
    _elementary("cos"),
    _elementary("tan"),
    _elementary("asin"),
    _elementary("acos"),
    _elementary("atan"),
    _elementary("sinh"),
    _elementary("cosh"),
    _elementary("asinh"),
    _elementary("acosh"),
    _elementary("atanh"),
    _curve("sigmoid", sigmoid),
    _curve("tanh", tanh),
    _curve("silu", silu),
    _curve("gelu", gelu),
    _curve("hardswish", hardswish, instructions=1),
    Function("is_nan", 1, np.isnan, (FLOAT,), BOOL),
    Function("is_infinite", 1, np.isinf, (FLOAT,), BOOL),
    _comparison("less", lambda a, b: a < b),
    _comparison("less_or_equal", lambda a, b: a <= b),
    _comparison("equal", lambda a, b: a == b),
    Function("logical_not", 1, np.logical_not, (BOOL,), BOOL),
    Function("bit_and", 2, np.bitwise_and, (INT, LONG, BOOL)),
    Function("bit_or", 2, np.bitwise_or, (INT, LONG, BOOL)),
    Function("bit_xor", 2, np.bitwise_xor, (INT, LONG, BOOL)),
    Function("bit_not", 1, np.invert, INTEGERS),
    Function("shift_left", 2, lambda a, b: _shifted(a, b, True), INTEGERS),
    Function("shift_right", 2, lambda a, b: _shifted(a, b, False), INTEGERS),
    # The first argument is a bool, the other two are of one type.
    Function("select", 3, _select, ALL),
    Function("to_float32", 1, lambda a: a.astype(np.float32), ALL, FLOAT),
    Function("to_int32", 1, _to_integer("int32"), ALL, INT),
    Function("nearest", 1, _nearest, (FLOAT,), INT),
    Function(
        "quantize",
        5,
        _quantize,
        (FLOAT,),
        INT,
        # It multiplies, corrects the product, rounds it, adds the zero point and clamps.
        instructions=10,
    ),
    Function("to_int64", 1, _to_integer("int64"), ALL, LONG),
    Function("to_bool", 1, lambda a: a != 0, ALL, BOOL),
    *(Function(name, 1, _rounded(dtype), (FLOAT,), FLOAT) for dtype, name in ROUNDED.items()),
    *(Function(f"wrap_{dtype}", 1, _narrow(dtype), (INT,)) for dtype in ("int8", "uint8", "int16", "uint16")),
)
