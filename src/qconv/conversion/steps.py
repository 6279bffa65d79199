"""The arithmetic of quantize, dequantize and requantize as data: each line of C++ beside its NumPy line.

The C++ lines of `Prepared` read the values loaded for one scale (`scale`, `zero_point`; for a requantize `x_scale`,
`x_zero`, `y_scale`, `y_zero`) and are computed once per scale. The lines of the steps read `element` as stored (floats
of 16 and of 8 bits as unsigned integers) and the struct `prepared`; they declare `value` and set `result`. The NumPy
lines read the same values as arrays that broadcast, by name.

Every real operation rounds once. Denormals are kept: kernels are compiled with -ftz=false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.epilogue import ROUNDINGS
from qconv.arithmetic.fma import fma
from qconv.arithmetic.narrow import NAN_OF_FLOAT8, NARROW_FLOATS, narrow
from qconv.arithmetic.step import Step
from qconv.conversion.problem import Dequantize, Dynamic, Quantize, Requantize
from qconv.dtypes import ELEMENT_TYPES, FLOAT8

Values = dict[str, Any]
Array = NDArray[Any]
Elementwise = Quantize | Dequantize | Requantize | Dynamic

_LONG_ROUNDINGS = {
    "rne": "tile::round_to_long",
    "half_away": "tile::round_half_away_to_long",
    "rtz": "static_cast<long long>",
}


@dataclass(frozen=True)
class Prepared:
    """A field of the struct `prepared`: an expression that is computed once per scale."""

    name: str
    ctype: str  # "float", "double" or "int"
    cxx: str
    numpy: Callable[[Values], Array]
    says: str


@dataclass(frozen=True)
class Real:
    """A type of arithmetic. 16-bit types compute in fp32 and round each result to 16 bits."""

    precision: str

    @property
    def ctype(self) -> str:
        return "double" if self.precision == "float64" else "float"

    @property
    def dtype(self) -> Any:
        return ELEMENT_TYPES["float64" if self.precision == "float64" else "float32"].numpy

    def literal(self, number: float) -> str:
        text = repr(float(number) if self.ctype == "double" else float(np.float32(number)))
        return text + ("" if self.ctype == "double" else "f")

    def cast(self, cxx: str) -> str:
        return f"static_cast<{self.ctype}>({cxx})"

    def rounded(self, cxx: str) -> str:
        if self.precision not in NARROW_FLOATS:
            return cxx
        narrow_float = NARROW_FLOATS[self.precision]
        return narrow_float.read.format(narrow_float.round.format(cxx))

    def round(self, value: Any) -> Array:
        """Round to this precision, like `rounded`; the array keeps the type of the arithmetic."""
        return np.asarray(value).astype(self.dtype).astype(ELEMENT_TYPES[self.precision].numpy).astype(self.dtype)


def prepared(problem: Elementwise) -> tuple[Prepared, ...]:
    """Return the fields of the struct `prepared`, in order."""
    if isinstance(problem, Dynamic):
        problem = problem.quantize
    if isinstance(problem, Requantize):
        return tuple(_prepared_requantize(problem))
    real, scale = Real(problem.precision), Real(problem.scale_type)
    if isinstance(problem, Dequantize):
        return tuple(_prepared_dequantize(problem, real))
    return (
        *([_inverse(real, scale, "scale")] if problem.quotient == "reciprocal" else _divisor(problem, real, "scale")),
        *_prepared_zero(problem, problem.zero_point, real, "zero_point"),
    )


def steps(problem: Elementwise) -> tuple[Step, ...]:
    """Return the steps from `element` to `result`, in order."""
    if isinstance(problem, Dynamic):
        problem = problem.quantize
    if isinstance(problem, Dequantize):
        return (*_subtract(problem, problem.zero_point), _multiply(Real(problem.precision), "factor"), _narrow(problem))
    if isinstance(problem, Requantize):
        return (*_subtract(problem, problem.x_zero_point), *_rescale(problem), *_store(problem, problem.y_zero_point))
    real = Real(problem.precision)
    quotient = _multiply(real, "inverse") if problem.quotient == "reciprocal" else _divide(problem, real)
    if problem.fma == "on":
        return (_load(problem, real), FUSED, *_convert(problem, False))
    if problem.out_type in FLOAT8:
        return (_load(problem, real), quotient, _narrow(problem))
    return (_load(problem, real), quotient, *_store(problem, problem.zero_point))


# ---- once per scale ----


def _rounded(real: Real, name: str, source: str) -> Prepared:
    cxx = real.rounded(real.cast(source))
    return Prepared(name, real.ctype, cxx, lambda v: real.round(v[source]), f"{source} as {real.precision}")


def divides_by_reciprocal(problem: Quantize | Requantize) -> bool:
    """True where a division in fp32 has `tile::quotient`, which loses the sign of a zero: an integer has none, and an
    8-bit float has one."""
    return problem.precision != "float64" and problem.out_type not in FLOAT8


def _divisor(problem: Quantize | Requantize, real: Real, source: str) -> Iterator[Prepared]:
    yield _rounded(real, "divisor", source)
    if divides_by_reciprocal(problem):
        shared = "SHARED_SCALE ? tile::inverse_of(prepared.divisor) : 0.0f"
        # The oracle divides. The reciprocal only speeds up the division and does not affect its result.
        yield Prepared("reciprocal", "float", shared, lambda v: np.zeros_like(v[source]), "of the divisor, or 0")


def _inverse(real: Real, scale: Real, source: str) -> Prepared:
    """Return 1 / scale, computed in the scale's type and then rounded."""
    return Prepared(
        "inverse",
        real.ctype,
        real.rounded(real.cast(f"tile::divide({scale.literal(1)}, {source})")),
        lambda v: real.round(scale.dtype.type(1) / v[source]),
        f"1 / {source} in {scale.precision}, as {real.precision}",
    )


def _prepared_zero(problem: Quantize | Requantize, there: bool, real: Real, name: str) -> Iterator[Prepared]:
    if not there:
        return
    if problem.zero_point_add == "before_round":
        cxx = real.rounded(real.cast(name))
        yield Prepared("real_zero", real.ctype, cxx, lambda v: real.round(v[name]), f"{name}, real")
        return
    # The bounds of the clamp are integers, so that clamping before the rounding equals clamping after it.
    bounds = _bounds(problem)
    for field, number in (("lowest", problem.low), ("highest", problem.high)):
        assert number is not None
        yield _bound(field, number, bounds, name)
    yield Prepared("zero", "int", name, lambda v: np.asarray(v[name], np.int64), name)


def _bounds(problem: Quantize | Requantize) -> Real:
    """Return the type of the clamp: only fp64 represents the bounds of an int32 exactly."""
    return Real("float64" if problem.out_type == "int32" or problem.precision == "float64" else "float32")


def _bound(field: str, number: int, real: Real, zero: str) -> Prepared:
    return Prepared(
        field,
        real.ctype,
        f"tile::add({real.literal(number)}, -{real.cast(zero)})",
        lambda v: real.dtype.type(number) - v[zero].astype(real.dtype),
        f"{number} - {zero}",
    )


def _prepared_dequantize(problem: Dequantize, real: Real) -> Iterator[Prepared]:
    yield _rounded(real, "factor", "scale")
    if problem.zero_point and problem.subtraction == "real":
        yield _rounded(real, "real_zero", "zero_point")
    elif problem.zero_point:
        yield Prepared("zero", "int", "zero_point", lambda v: np.asarray(v["zero_point"], np.int64), "zero_point")


def _prepared_requantize(problem: Requantize) -> Iterator[Prepared]:
    real, scale = Real(problem.precision), Real(problem.scale_type)
    if problem.order == "multiply":
        yield Prepared(
            "multiplier",
            real.ctype,
            real.cast("tile::divide(x_scale, y_scale)"),
            lambda v: real.round(v["x_scale"] / v["y_scale"]),
            f"x_scale / y_scale in {scale.precision}, as {real.precision}",
        )
    else:
        yield _rounded(real, "factor", "x_scale")
        reciprocal = problem.order == "multiply_reciprocal"
        yield from [_inverse(real, scale, "y_scale")] if reciprocal else _divisor(problem, real, "y_scale")
    if problem.x_zero_point:
        yield Prepared("x_zero", "int", "x_zero", lambda v: np.asarray(v["x_zero"], np.int64), "x_zero")
    yield from _prepared_zero(problem, problem.y_zero_point, real, "y_zero")


# ---- each element ----


def _load(problem: Quantize | Dequantize | Requantize, real: Real) -> Step:
    cxx = NARROW_FLOATS[problem.x_type].read.format("element") if problem.x_type in NARROW_FLOATS else "element"
    return Step("load", f"{real.ctype} value = {real.cast(cxx)};", lambda x, v: x.astype(real.dtype))


def _divide(problem: Quantize | Requantize, real: Real) -> Step:
    cxx = "tile::divide(value, prepared.divisor)"
    if divides_by_reciprocal(problem):
        # The result of a division, made cheaper by a reciprocal computed once per scale.
        cxx = "tile::quotient(value, prepared.divisor, prepared.reciprocal)"
    return Step(
        "divide",
        f"value = {real.rounded(cxx)};",
        lambda value, v: real.round(value / v["divisor"]),
    )


def _multiply(real: Real, by: str) -> Step:
    return Step(
        "multiply",
        f"value = {real.rounded(f'tile::multiply(value, prepared.{by})')};",
        lambda value, v: real.round(value * v[by]),
    )


FUSED = Step(
    "multiply_and_add",
    "value = tile::fma(value, prepared.inverse, prepared.real_zero);",
    lambda value, v: fma(value, v["inverse"], v["real_zero"]),
)


def _subtract(problem: Dequantize | Requantize, there: bool) -> Iterator[Step]:
    real = Real(problem.precision)
    if not there or (isinstance(problem, Dequantize) and problem.subtraction == "real"):
        yield _load(problem, real)
        if there:
            yield Step(
                "subtract",
                "value = tile::add(value, -prepared.real_zero);",
                lambda value, v: value - v["real_zero"],
            )
        return
    zero = "zero" if isinstance(problem, Dequantize) else "x_zero"
    # The difference of two int32 has 33 bits. For narrower types, with zero points of that type, an int holds it.
    exact = "long long" if problem.x_type == "int32" else "int"
    yield Step(
        "subtract",
        f"{real.ctype} value = {real.cast(f'static_cast<{exact}>(element) - prepared.{zero}')};",
        lambda x, v: (x.astype(np.int64) - v[zero]).astype(real.dtype),
    )


def _rescale(problem: Requantize) -> Iterator[Step]:
    real = Real(problem.precision)
    if problem.order == "multiply":
        yield _multiply(real, "multiplier")
        return
    yield _multiply(real, "factor")
    yield _multiply(real, "inverse") if problem.order == "multiply_reciprocal" else _divide(problem, real)


def _narrow(problem: Quantize | Dequantize) -> Step:
    out_type, double = problem.out_type, problem.precision == "float64"
    cxx = "static_cast<Output>(value)"
    if out_type in NARROW_FLOATS:
        cxx = NARROW_FLOATS[out_type].round.format("tile::to_odd(value)" if double else "value")
    if out_type in FLOAT8:  # devices make different NaN
        cxx = f"value == value ? {cxx}\n        : static_cast<Output>({NAN_OF_FLOAT8:#x})"
    return Step("narrow", f"result = {cxx};", lambda value, v: narrow(value, out_type))


def clamped(value: Array, low: Any, high: Any) -> Array:
    """Clamp like the C++ `clamp`: a NaN becomes `low`."""
    return np.asarray(np.fmin(np.fmax(value, low), high))


def _store(problem: Quantize | Requantize, zero: bool) -> Iterator[Step]:
    real = Real(problem.precision)
    before = zero and problem.zero_point_add == "before_round"
    if before:
        yield Step(
            "zero_point",
            f"value = {real.rounded('tile::add(value, prepared.real_zero)')};",
            lambda value, v: real.round(value + v["real_zero"]),
        )
    yield from _convert(problem, zero and not before)


def _convert(problem: Quantize | Requantize, zero: bool) -> Iterator[Step]:
    """Yield the step that clamps and converts to an integer. The clamp comes first, so that the conversion cannot
    overflow; for int32 it is in fp64, which is exact."""
    out_type, low, high = problem.out_type, problem.low, problem.high
    assert low is not None
    assert high is not None
    real, bounds = Real(problem.precision), _bounds(problem)
    value = "value" if bounds.ctype == real.ctype else "static_cast<double>(value)"
    cxx, rounded = ROUNDINGS[problem.rounding]
    if not zero:
        limits = f"{bounds.literal(low)}, {bounds.literal(high)}"
        yield Step(
            "quantize",
            f"result = static_cast<Output>(\n        {cxx}(tile::clamp({value}, {limits})));",
            lambda value, v: rounded(clamped(value.astype(bounds.dtype), low, high)).astype(out_type),
        )
        return
    if out_type == "int32":
        cxx = _LONG_ROUNDINGS[problem.rounding]
    yield Step(
        "quantize",
        f"result = static_cast<Output>(\n        {cxx}(tile::clamp({value}, prepared.lowest, prepared.highest))\n"
        "        + prepared.zero);",
        lambda value, v: (
            rounded(clamped(value.astype(bounds.dtype), v["lowest"], v["highest"])).astype(np.int64) + v["zero"]
        ).astype(out_type),
    )
