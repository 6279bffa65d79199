"""The sum of two quantized tensors as ONNX Runtime's QLinearAdd computes it on x86 with AVX2, found by comparing all
pairs of bytes: fma(last, last_ratio, fma(first, first_ratio, offset)). The order of the two affects some last bits.

It makes a convolution and the QLinearAdd behind it one epilogue: the convolution's own output is rounded and clamped to
its type, with its own scale and zero point (`inner`), and then added to the residual, as two kernels would do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qconv.arithmetic.fma import fma
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.arithmetic.step import Argument, Array, Step, Values
from qconv.dtypes import RANGES


class Linear(NamedTuple):
    """The scale and zero point of a tensor of bytes."""

    scale: Any
    zero_point: Any


@dataclass(frozen=True)
class Term:
    """One of the two operands: its element as a float, in C++ and in NumPy, and its ratio."""

    cxx: str
    numpy: Callable[[Array, Values], Array]
    ratio: Argument

    def onto(self, what: str, arguments: str) -> str:
        return f"tile::fma({self.cxx}, {arguments}.{self.ratio.name}, {what})"

    def added(self, value: Array, v: Values, what: Array) -> Array:
        return fma(self.numpy(value, v), v[self.ratio.name], what)


def ratio(scale: Any, y_scale: Any) -> np.float32:
    return np.float32(scale) / np.float32(y_scale)


def offset(first: Linear, last: Linear, y: Linear) -> np.float32:
    """Return the start value of the sum: y_zero_point - (first_ratio * first_zero_point + last_ratio *
    last_zero_point), where the last product is part of an fma."""
    of_first = ratio(first.scale, y.scale) * np.float32(first.zero_point)
    both = fma(ratio(last.scale, y.scale), np.float32(last.zero_point), of_first)
    return np.float32(np.float32(y.zero_point) - both)


def _own(p: Parameters) -> Linear:
    return Linear(p.inner_scale, p.inner_zero_point)


def _residual(p: Parameters) -> Linear:
    return Linear(p.residual_scale, p.residual_zero_point)


def _offset(q: Quantization, p: Parameters) -> np.float32:
    first, last = (_own(p), _residual(p)) if q.mode.begins_with_own else (_residual(p), _own(p))
    return offset(first, last, Linear(p.y_scale, p.y_zero_point))


INNER_ZERO = Argument(
    "inner_zero", "float", False, "the zero point of its own output", lambda q, p: np.float32(p.inner_zero_point)
)
OWN = Term(
    "value",
    lambda value, v: value,
    Argument("inner_ratio", "float", False, "inner_scale / y_scale", lambda q, p: ratio(p.inner_scale, p.y_scale)),
)
RESIDUAL = Term(
    "static_cast<float>(residual)",
    lambda value, v: np.asarray(v["residual"], np.float32),
    Argument(
        "residual_ratio", "float", False, "residual_scale / y_scale", lambda q, p: ratio(p.residual_scale, p.y_scale)
    ),
)
OFFSET = Argument(
    "sum_offset",
    "float",
    False,
    "y_zero_point - (inner_ratio * inner_zero_point + residual_ratio * residual_zero_point)",
    _offset,
)

Y_ZERO = Argument("y_zero", "float", False, "the output zero point", lambda q, p: np.float32(p.y_zero_point))


def steps(quantization: Quantization) -> tuple[Step, ...]:
    """Return the steps after the scale, which produces units of `inner_scale`."""
    return _requantize_own(quantization), _add(quantization), _store(quantization)


def _requantize_own(quantization: Quantization) -> Step:
    low, high = RANGES[quantization.out_type]
    has_zero = quantization.inner_zero_point
    whole = "tile::rounded(value, channel.inner_zero)" if has_zero else "tile::rounded(value)"
    return Step(
        "requantize_own",
        f"value = tile::clamp({whole}, {low}.0f, {high}.0f);",
        lambda value, v: np.clip(np.rint(value) + v.get("inner_zero", np.float32(0)), low, high),
        (INNER_ZERO,) if has_zero else (),
        ("rounded_more",) if has_zero else (),
    )


def _add(quantization: Quantization) -> Step:
    first, last = (OWN, RESIDUAL) if quantization.mode.begins_with_own else (RESIDUAL, OWN)
    begun = first.onto("channel.sum_offset", "channel")
    return Step(
        "add_requantized",
        f"value = {last.onto(begun, 'channel')};",
        lambda value, v: last.added(value, v, first.added(value, v, v["sum_offset"])),
        (OWN.ratio, RESIDUAL.ratio, OFFSET),
        ("fma",),
    )


def _store(quantization: Quantization) -> Step:
    """Return the step that applies a relu as a clamp at the output zero point. Packing rounds and clamps to the type's
    range."""
    low, high = RANGES[quantization.out_type]
    is_relu = quantization.activation == "relu"
    has_zero = is_relu and quantization.y_zero_point
    least = "channel.y_zero" if has_zero else "0.0f" if is_relu else f"{low}.0f"

    def stored(value: Array, v: Values) -> Array:
        bottom = np.maximum(v.get("y_zero", np.float32(0)), low) if is_relu else low
        return np.clip(np.rint(value), bottom, high).astype(quantization.out_type)

    inside = "value" if least == f"{low}.0f" else f"tile::maximum(value, {least})"
    return Step("requantize", f"result = {inside};", stored, (Y_ZERO,) if has_zero else (), ("narrow",))
