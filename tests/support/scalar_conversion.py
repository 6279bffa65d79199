"""One element of a conversion in exact rational arithmetic, written from `docs/contract.md` alone.

It shares no line with the package; `rounded_to` rounds a rational number as IEEE 754 does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from math import floor
from typing import Any

DIGITS = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}
DIGITS |= {"float8_e4m3fn": (4, -9), "float8_e5m2": (3, -16)}
LARGEST = {"float8_e4m3fn": Fraction(448), "float8_e5m2": Fraction(57344)}
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}
RANGES["int32"] = (-(2**31), 2**31 - 1)


def rounded_to(x: Fraction, name: str) -> Fraction:
    digits, least = DIGITS[name]
    if x == 0:
        return x
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length() - digits
    while abs(x) / Fraction(2) ** exponent >= 2**digits:
        exponent += 1
    while exponent > least and abs(x) / Fraction(2) ** exponent < 2 ** (digits - 1):
        exponent -= 1
    unit = Fraction(2) ** max(exponent, least)
    return round(x / unit) * unit


def integer(x: Fraction, how: str) -> int:
    if how == "rne":
        return round(x)
    magnitude = floor(abs(x) + Fraction(1, 2)) if how == "half_away" else floor(abs(x))
    return magnitude if x >= 0 else -magnitude


@dataclass(frozen=True)
class Flags:
    """Every flag at its default; a vector lists those that differ."""

    x_type: str = "float32"
    out_type: str = "int8"
    scale_type: str = "float32"
    precision: str = "float32"
    quotient: str = "divide"
    rounding: str = "rne"
    zero_point_add: str = "after_round"
    fma: str = "off"
    subtraction: str = "integer"
    order: str = "multiply"

    @classmethod
    def of(cls, given: dict[str, str]) -> Flags:
        known = {entry.name for entry in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})


def quantize(x: float, scale: float, zero: int, f: Flags) -> int | Fraction:
    def real(value: Fraction) -> Fraction:
        # A 16-bit result is the fp32 result, rounded again.
        wide = rounded_to(value, "float64" if f.precision == "float64" else "float32")
        return rounded_to(wide, f.precision)

    value, s, addend = real(Fraction(x)), rounded_to(Fraction(scale), f.scale_type), real(Fraction(zero))
    if f.fma == "on":
        value = real(value * real(rounded_to(1 / s, f.scale_type)) + addend)
        return _clamped(integer(value, f.rounding), f)
    inverse = rounded_to(1 / s, f.scale_type)
    value = real(value / real(s)) if f.quotient == "divide" else real(value * real(inverse))
    return _stored(value, zero, f)


def _stored(value: Fraction, zero: int, f: Flags) -> int | Fraction:
    if f.out_type in LARGEST:
        most = LARGEST[f.out_type]
        return min(max(rounded_to(value, f.out_type), -most), most)
    if f.zero_point_add == "after_round":
        return _clamped(integer(value, f.rounding) + zero, f)
    total = rounded_to(value + rounded_to(Fraction(zero), f.precision), f.precision)
    return _clamped(integer(total, f.rounding), f)


def _clamped(number: int, f: Flags) -> int:
    low, high = RANGES[f.out_type]
    return min(max(number, low), high)


def dequantize(q: float, scale: float, zero: int, f: Flags) -> float:
    real = f.precision
    if f.subtraction == "integer":
        value = rounded_to(Fraction(q) - zero, real)
    else:
        value = rounded_to(rounded_to(Fraction(q), real) - rounded_to(Fraction(zero), real), real)
    factor = rounded_to(rounded_to(Fraction(scale), f.scale_type), real)
    return float(rounded_to(rounded_to(value * factor, real), f.out_type))


def requantize(q: int, x_scale: float, x_zero: int, y_scale: float, y_zero: int, f: Flags) -> int | Fraction:
    def real(value: Fraction) -> Fraction:
        return rounded_to(value, f.precision)

    value = real(Fraction(q - x_zero))
    x, y = (rounded_to(Fraction(scale), f.scale_type) for scale in (x_scale, y_scale))
    if f.order == "multiply":
        value = real(value * real(rounded_to(x / y, f.scale_type)))
    elif f.order == "multiply_divide":
        value = real(real(value * real(x)) / real(y))
    else:
        value = real(real(value * real(x)) * real(rounded_to(1 / y, f.scale_type)))
    return _stored(value, y_zero, f)


def element(vector: dict[str, Any]) -> float:
    """Return the output of a vector of `tests/vectors/quantize.json`."""
    types = {"out_type": "float32"} if vector["op"] == "dequantize" else {}
    f, given = Flags.of({**types, **vector["flags"]}), vector["given"]
    if vector["op"] == "quantize":
        return float(quantize(given["x"], given["scale"], given["zero_point"], f))
    if vector["op"] == "dequantize":
        return dequantize(given["x"], given["scale"], given["zero_point"], f)
    return float(requantize(given["x"], given["x_scale"], given["x_zero"], given["y_scale"], given["y_zero"], f))
