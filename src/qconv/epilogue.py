"""From the accumulator to the output element: an ordered list of steps, each one C++ line beside its NumPy line.

The C++ lines see `acc` (int), `value` (float), `result` (the output element), `channel` (what is known per output
channel), `x_sum` (the sum of the window's activations) and the functions of `tile::`. The NumPy lines see the same
state as whole arrays, and a `Values` with the arguments as arrays that broadcast over the channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.quantization import RANGES, Parameters, Quantization

Values = dict[str, Any]
Array = NDArray[Any]


@dataclass(frozen=True)
class Argument:
    """One run-time value that a step reads: a kernel argument, and a field of `Channel` in the generated source."""

    name: str
    ctype: str  # "int" or "float"
    per_channel: bool
    says: str
    value: Callable[[Quantization, Parameters], Any]

    @property
    def dtype(self) -> str:
        return {"int": "int32", "float": "float32"}[self.ctype]


@dataclass(frozen=True)
class Step:
    name: str
    cxx: str
    numpy: Callable[[Array, Values], Array]
    arguments: tuple[Argument, ...] = ()
    wants: tuple[str, ...] = ()  # what the prelude has to bring for the C++ line


def _float32(value: Any) -> Array:
    return np.asarray(value, dtype=np.float32)


def real_scale(quantization: Quantization, parameters: Parameters) -> Array:
    """What one accumulator unit is worth: x_scale * w_scale, one fp32 rounding."""
    return _float32(parameters.x_scale) * _float32(parameters.w_scale)


def multiplier(quantization: Quantization, parameters: Parameters) -> Array:
    """x_scale * w_scale / y_scale; without the division where the output is real."""
    y_scale = parameters.y_scale if quantization.requantizes else 1.0
    if quantization.mode.multiplier == "fp64_rounded":
        x, w, y = (np.asarray(v, np.float64) for v in (parameters.x_scale, parameters.w_scale, y_scale))
        return _float32(x * w / y)
    chained: Array = real_scale(quantization, parameters) / _float32(y_scale)
    return chained


def integer_bias(quantization: Quantization, parameters: Parameters) -> Array:
    """The bias in the accumulator: as given, or an fp32 bias rounded to accumulator units."""
    if parameters.bias is None:
        return np.zeros((), np.int32)
    if quantization.bias == "int32":
        return np.asarray(parameters.bias, np.int32)
    low, high = RANGES["int32"]
    units = np.asarray(_scaled_down(quantization, parameters), np.float64)
    return np.asarray(np.clip(np.rint(units), low, high), np.int32)


def _scaled_down(quantization: Quantization, parameters: Parameters) -> Array:
    scale = real_scale(quantization, parameters)
    if quantization.mode.bias_scaling == "reciprocal":
        return _float32(parameters.bias) * (np.float32(1) / scale)
    return _float32(parameters.bias) / scale


def real_bias(quantization: Quantization, parameters: Parameters) -> Array:
    if quantization.bias == "int32":
        return np.asarray(parameters.bias, np.int32).astype(np.float32) * real_scale(quantization, parameters)
    return _float32(parameters.bias)


def relu6_top(quantization: Quantization, parameters: Parameters) -> Array:
    """6 in the units that the activation sees: the output's where the value is multiplied by one number, else real."""
    six = _float32(6.0)
    in_output_units = quantization.requantizes and quantization.mode.order == "multiply"
    return six / _float32(parameters.y_scale) if in_output_units else six


def steps(quantization: Quantization) -> tuple[Step, ...]:
    """The epilogue, in the order in which it is computed."""
    chosen = list(_corrections(quantization))
    if quantization.scaled:
        chosen += _scale(quantization)
    if quantization.activation != "none":
        chosen.append(ACTIVATIONS[quantization.activation])
    if quantization.requantizes and quantization.mode.order != "multiply":
        chosen.append(TO_OUTPUT_UNITS[quantization.mode.order])
    chosen.append(_store(quantization))
    return tuple(chosen)


def _corrections(quantization: Quantization) -> Iterator[Step]:
    """In int32, modulo 2**32. The oracle subtracts the zero points from the operands instead, so that here its lines
    only add the bias: sum (x - zx)(w - zw) = sum x w + [count zx zw - zx sum w + bias] - zw sum x."""
    if has_offset(quantization):
        folded = quantization.x_zero_point
        yield Step(
            "offset",
            "acc = tile::wrapping_add(acc, channel.offset);",
            (lambda acc, v: acc + v["offset"]) if quantization.bias_at == "accumulator" else (lambda acc, v: acc),
            (
                Argument(
                    "offset",
                    "int",
                    True,
                    "written by fold: the int32 bias and what x_zero_point adds" if folded else "the int32 bias",
                    integer_bias,
                ),
            ),
        )
    if quantization.w_zero_point:
        yield Step(
            "weight_zero_point",
            "acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);",
            lambda acc, v: acc,
            (
                Argument(
                    "w_zero",
                    "int",
                    quantization.per_channel,
                    "the weight zero point",
                    lambda q, parameters: np.asarray(parameters.w_zero_point, np.int32),
                ),
            ),
        )


def has_offset(quantization: Quantization) -> bool:
    return quantization.bias_at == "accumulator" or quantization.x_zero_point


TO_FLOAT = Step("to_float", "float value = static_cast<float>(acc);", lambda acc, v: acc.astype(np.float32))
TO_DOUBLE = Step("to_double", "double value = static_cast<double>(acc);", lambda acc, v: acc.astype(np.float64))


def _scale(quantization: Quantization) -> Iterator[Step]:
    mode = quantization.mode
    if mode.order != "multiply":
        yield TO_FLOAT
        yield from _real_scale(quantization)
        return
    wide = mode.multiplier == "fp64"
    yield TO_DOUBLE if wide else TO_FLOAT
    if quantization.bias_at == "value":
        by = "* fp32(1 / (x_scale * w_scale))" if mode.bias_scaling == "reciprocal" else "/ (x_scale * w_scale)"
        yield Step(
            "float32_bias",
            "value = tile::add(value, channel.bias);",
            lambda value, v: value + v["bias"],
            (Argument("bias", "float", True, f"fp32 bias {by}", _scaled_down),),
        )
    says = "x_scale * w_scale / y_scale" if quantization.requantizes else "x_scale * w_scale"
    yield Step(
        "multiply",
        "value = tile::multiply(value, channel.multiplier);",
        lambda value, v: value * v["multiplier"],
        (Argument("multiplier", "float", quantization.per_channel, says, multiplier),),
        ("double",) if wide else (),
    )


def _real_scale(quantization: Quantization) -> Iterator[Step]:
    scale = Argument("scale", "float", quantization.per_channel, "x_scale * w_scale", real_scale)
    if quantization.bias_at is None:
        yield Step(
            "scale",
            "value = tile::multiply(value, channel.scale);",
            lambda value, v: value * v["scale"],
            (scale,),
        )
        return
    bias = Argument("bias", "float", True, "the bias, in real units", real_bias)
    if quantization.mode.fma == "on":
        yield Step(
            "scale_and_bias",
            "value = tile::fma(value, channel.scale, channel.bias);",
            lambda value, v: _fma(value, v["scale"], v["bias"]),
            (scale, bias),
            ("fma",),
        )
        return
    yield Step(
        "scale_and_bias",
        "value = tile::add(tile::multiply(value, channel.scale), channel.bias);",
        lambda value, v: value * v["scale"] + v["bias"],
        (scale, bias),
    )


def _fma(a: Array, b: Array, c: Array) -> Array:
    """fp32 a * b + c with one rounding. The product is exact in fp64; the sum is rounded there to odd, after which the
    rounding to fp32 is as if it were the only one."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = np.broadcast_to(c, product.shape).astype(np.float64)
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(lost > 0, np.inf, -np.inf)
    return np.where((lost != 0) & even, np.nextafter(total, toward), total).astype(np.float32)


TO_OUTPUT_UNITS = {
    "multiply_divide": Step(
        "divide",
        "value = tile::divide(value, channel.y_scale);",
        lambda value, v: value / v["y_scale"],
        (Argument("y_scale", "float", False, "the output scale", lambda q, p: _float32(p.y_scale)),),
        ("divide",),
    ),
    "multiply_reciprocal": Step(
        "multiply_reciprocal",
        "value = tile::multiply(value, channel.inverse);",
        lambda value, v: value * v["inverse"],
        (Argument("inverse", "float", False, "1 / y_scale", lambda q, p: np.float32(1) / _float32(p.y_scale)),),
    ),
}

ACTIVATIONS = {
    "relu": Step("relu", "value = tile::maximum(value, 0.0f);", lambda value, v: np.maximum(value, np.float32(0))),
    "relu6": Step(
        "relu6",
        "value = tile::minimum(tile::maximum(value, 0.0f), channel.top);",
        lambda value, v: np.minimum(np.maximum(value, np.float32(0)), v["top"]),
        (Argument("top", "float", False, "6 in units of the output", relu6_top),),
    ),
}


def _store(quantization: Quantization) -> Step:
    if quantization.requantizes:
        return _requantize(quantization)
    if quantization.out_type == "float16":
        return Step("to_half", "result = tile::to_half(value);", lambda value, v: _to_half(value), wants=("half",))
    if quantization.out_type == "float32":
        return Step("to_float32", "result = value;", lambda value, v: value.astype(np.float32))
    return Step("to_int32", "result = acc;", lambda acc, v: acc)


def _to_half(value: Array) -> Array:
    with np.errstate(over="ignore"):
        return value.astype(np.float32).astype(np.float16)


def _half_away(value: Array) -> Array:
    whole = np.trunc(value)
    return whole + np.where(np.abs(value - whole) >= 0.5, np.sign(value), np.zeros_like(value))


ROUNDINGS: dict[str, tuple[str, Callable[[Array], Array], tuple[str, ...]]] = {
    "rne": ("tile::round_to_int", np.rint, ()),
    "half_away": ("tile::round_half_away", _half_away, ("half_away",)),
    "rtz": ("static_cast<int>", np.trunc, ()),
}


def _requantize(quantization: Quantization) -> Step:
    low, high = quantization.limits
    cxx, rounded, wants = ROUNDINGS[quantization.mode.rounding]
    out_type = quantization.out_type
    # Clamping to [low - zero, high - zero] before the rounding equals clamping after it, because the bounds are
    # integers, and it keeps the conversion to int in range.
    if not quantization.y_zero_point:
        return Step(
            "requantize",
            f"result = static_cast<Output>({cxx}(tile::clamp(value, {low}.0f, {high}.0f)));",
            lambda value, v: np.clip(rounded(value), low, high).astype(out_type),
            wants=wants,
        )
    zero = Argument("y_zero", "float", False, "the output zero point", lambda q, p: _float32(p.y_zero_point))
    if quantization.mode.zero_point_add == "before_round":
        return Step(
            "requantize",
            "value = tile::add(value, channel.y_zero);\n"
            f"    result = static_cast<Output>({cxx}(tile::clamp(value, {low}.0f, {high}.0f)));",
            lambda value, v: np.clip(rounded(value + v["y_zero"]), low, high).astype(out_type),
            (zero,),
            wants,
        )
    return Step(
        "requantize",
        "result = static_cast<Output>(\n"
        f"        {cxx}(tile::clamp(value, {low}.0f - channel.y_zero, {high}.0f - channel.y_zero))\n"
        "        + static_cast<int>(channel.y_zero));",
        lambda value, v: np.clip(rounded(value) + v["y_zero"], low, high).astype(out_type),
        (zero,),
        wants,
    )
