"""One output of a requantization, in exact rational arithmetic, written from `docs/contract.md` alone.

It shares no line with the package: `fp32` and `fp64` round a rational number as IEEE 754 does, and every mode is
spelled out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from qconv.arithmetic.mode import Mode


@dataclass(frozen=True)
class Case:
    """The inputs of the epilogue of one output. The scales are float32 numbers."""

    acc: int
    x_scale: float
    w_scale: float
    y_scale: float
    y_zero: int = 0
    int32_bias: int | None = None
    float32_bias: float | None = None
    residual: int | None = None
    residual_scale: float = 1.0
    residual_zero: int = 0


def fp32(x: Fraction) -> Fraction:
    return _binary(x, 24, -149)


def fp64(x: Fraction) -> Fraction:
    return _binary(x, 53, -1074)


def _binary(x: Fraction, digits: int, least: int) -> Fraction:
    if x == 0:
        return x
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length() - digits
    while abs(x) / Fraction(2) ** exponent >= 2**digits:
        exponent += 1
    while exponent > least and abs(x) / Fraction(2) ** exponent < 2 ** (digits - 1):
        exponent -= 1
    unit = Fraction(2) ** max(exponent, least)
    return round(x / unit) * unit  # Python rounds a Fraction half to even


def rounded(x: Fraction, how: str) -> int:
    if how == "rne":
        return round(x)
    magnitude = floor(abs(x) + Fraction(1, 2)) if how == "half_away" else floor(abs(x))
    return magnitude if x >= 0 else -magnitude


def plus_residual(value: Fraction, case: Case, scale: Fraction, mode: Mode) -> Fraction:
    if case.residual is None:
        return value
    product = (case.residual - case.residual_zero) * scale
    return fp32(value + (product if mode.residual_add == "fma" else fp32(product)))


def requantize(case: Case, mode: Mode) -> int:
    """Return the int8 output."""
    x, w, y, r = (Fraction(s) for s in (case.x_scale, case.w_scale, case.y_scale, case.residual_scale))
    if mode.scales == "twice_inverted":
        x, r = fp32(1 / fp32(1 / x)), fp32(1 / fp32(1 / r))
    scale = fp32(x * w)
    acc = case.acc
    float_bias = Fraction(case.float32_bias) if case.float32_bias is not None else None
    if mode.order == "multiply":
        acc += case.int32_bias or 0
        if float_bias is not None and mode.bias_scaling == "int32":
            acc += round(fp32(float_bias / scale))
        if float_bias is not None and mode.bias_scaling == "int32_reciprocal":
            acc += round(fp32(float_bias * fp32(1 / scale)))
        value = fp32(Fraction(acc))
        if mode.multiplier == "fp64":
            value = Fraction(acc)
        step = fp64 if mode.multiplier == "fp64" else fp32
        if float_bias is not None and mode.bias_scaling == "divide":
            value = step(value + fp32(float_bias / scale))
        if float_bias is not None and mode.bias_scaling == "reciprocal":
            value = step(value + fp32(float_bias * fp32(1 / scale)))
        if float_bias is not None and mode.bias_scaling == "reciprocal_fma":
            value = fp32(value + float_bias * fp32(1 / scale))
        if mode.multiplier == "fp64_rounded":
            m = fp32(fp64(fp64(x * w) / y))
        elif mode.multiplier == "fp32_reciprocal":
            m = fp32(scale * fp32(1 / y))
        else:
            m = fp32(scale / y)
        value = plus_residual(step(value * m), case, fp32(r / y), mode)
    else:
        step = fp32
        bias = float_bias
        if case.int32_bias is not None:
            bias = fp32(fp32(Fraction(case.int32_bias)) * scale)
        value = fp32(Fraction(acc))
        if bias is None:
            value = fp32(value * scale)
        elif mode.fma == "on":
            value = fp32(value * scale + bias)
        else:
            value = fp32(fp32(value * scale) + bias)
        value = plus_residual(value, case, r, mode)
        value = fp32(value / y) if mode.order == "multiply_divide" else fp32(value * fp32(1 / y))
    if mode.zero_point_add == "before_round":
        result = rounded(step(value + case.y_zero), mode.rounding)
    else:
        result = rounded(value, mode.rounding) + case.y_zero
    low = -127 if mode.clamp == "symmetric" else -128
    return min(max(result, low), 127)
