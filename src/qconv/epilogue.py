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


@dataclass(frozen=True)
class Step:
    name: str
    cxx: str
    numpy: Callable[[Array, Values], Array]
    arguments: tuple[Argument, ...] = ()


def _float32(value: Any) -> Array:
    return np.asarray(value, dtype=np.float32)


def real_scale(quantization: Quantization, parameters: Parameters) -> Array:
    """What one accumulator unit is worth: x_scale * w_scale, one fp32 rounding."""
    return _float32(parameters.x_scale) * _float32(parameters.w_scale)


def multiplier(quantization: Quantization, parameters: Parameters) -> Array:
    """x_scale * w_scale / y_scale as a chain of fp32 operations; without the division where the output is real."""
    scale = real_scale(quantization, parameters)
    return scale / _float32(parameters.y_scale) if quantization.requantizes else scale


def float_bias(quantization: Quantization, parameters: Parameters) -> Array:
    """The fp32 bias in accumulator units."""
    return _float32(parameters.bias) / real_scale(quantization, parameters)


def relu6_top(quantization: Quantization, parameters: Parameters) -> Array:
    """6 in units of the output."""
    six = _float32(6.0)
    return six / _float32(parameters.y_scale) if quantization.requantizes else six


def steps(quantization: Quantization) -> tuple[Step, ...]:
    """The epilogue of the default mode, in the order in which it is computed."""
    chosen = list(_corrections(quantization))
    if quantization.scaled:
        chosen.append(TO_FLOAT)
        if quantization.bias == "float32":
            chosen.append(_float32_bias(quantization))
        chosen.append(_multiply(quantization))
    if quantization.activation != "none":
        chosen.append(ACTIVATIONS[quantization.activation])
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
            (lambda acc, v: acc + v["offset"]) if quantization.bias == "int32" else (lambda acc, v: acc),
            (
                Argument(
                    "offset",
                    "int",
                    True,
                    "written by fold: the int32 bias and what x_zero_point adds" if folded else "the int32 bias",
                    lambda q, parameters: np.asarray(0 if parameters.bias is None else parameters.bias, np.int32),
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
    return quantization.bias == "int32" or quantization.x_zero_point


TO_FLOAT = Step("to_float", "float value = static_cast<float>(acc);", lambda acc, v: acc.astype(np.float32))


def _float32_bias(quantization: Quantization) -> Step:
    return Step(
        "float32_bias",
        "value = tile::add(value, channel.bias);",
        lambda value, v: value + v["bias"],
        (Argument("bias", "float", True, "fp32 bias / (x_scale * w_scale)", float_bias),),
    )


def _multiply(quantization: Quantization) -> Step:
    says = "x_scale * w_scale / y_scale" if quantization.requantizes else "x_scale * w_scale"
    return Step(
        "multiply",
        "value = tile::multiply(value, channel.multiplier);",
        lambda value, v: value * v["multiplier"],
        (Argument("multiplier", "float", quantization.per_channel, says, multiplier),),
    )


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
        return Step("to_half", "result = tile::to_half(value);", lambda value, v: _to_half(value))
    if quantization.out_type == "float32":
        return Step("to_float32", "result = value;", lambda value, v: value)
    return Step("to_int32", "result = acc;", lambda acc, v: acc)


def _to_half(value: Array) -> Array:
    with np.errstate(over="ignore"):
        return value.astype(np.float16)


def _requantize(quantization: Quantization) -> Step:
    low, high = RANGES[quantization.out_type]
    # Clamping to [low - zero, high - zero] before the rounding equals clamping after it, because the bounds are
    # integers, and it keeps the conversion to int in range.
    if not quantization.y_zero_point:
        return Step(
            "requantize",
            f"result = static_cast<Output>(tile::round_to_int(tile::clamp(value, {low}.0f, {high}.0f)));",
            lambda value, v: np.clip(np.rint(value), low, high).astype(quantization.out_type),
        )
    return Step(
        "requantize",
        "result = static_cast<Output>(\n"
        f"        tile::round_to_int(tile::clamp(value, {low}.0f - channel.y_zero, {high}.0f - channel.y_zero))\n"
        "        + static_cast<int>(channel.y_zero));",
        lambda value, v: np.clip(np.rint(value) + v["y_zero"], low, high).astype(quantization.out_type),
        (
            Argument(
                "y_zero",
                "float",
                False,
                "the output zero point",
                lambda q, parameters: _float32(parameters.y_zero_point),
            ),
        ),
    )
