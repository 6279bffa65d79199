"""Sums of quantized tensors as ONNX Runtime's QLinearAdd computes them on x86 with AVX2, found by comparing all pairs
of bytes: fma(last, last_ratio, fma(first, first_ratio, offset)). The order of the two affects some last bits.

They make a convolution and the QLinearAdd of a residual one epilogue: the convolution's own output (`inner`) is rounded
and clamped to its type, with its own scale and zero point, and then added to, as two kernels would do it.
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


def linear(parameters: Parameters, of: str) -> Linear:
    return Linear(getattr(parameters, f"{of}_scale"), getattr(parameters, f"{of}_zero_point"))


def start(parameters: Parameters, operands: tuple[str, str], made: str) -> np.float32:
    """Return the start value of the sum `made` of the first and the last operand."""
    first, last = (linear(parameters, of) for of in operands)
    return offset(first, last, linear(parameters, made))


def operands(quantization: Quantization) -> tuple[str, str]:
    """Return the first and the last operand of the sum with the residual."""
    return ("inner", "residual") if quantization.mode.begins_with_own else ("residual", "inner")


INNER_ZERO = Argument(
    "inner_zero", "float", False, "the zero point of its own output", lambda q, p: np.float32(p.inner_zero_point)
)
INNER = Term(
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
TERMS = {"inner": INNER, "residual": RESIDUAL}
OFFSET = Argument(
    "sum_offset",
    "float",
    False,
    "y_zero_point - (inner_ratio * inner_zero_point + residual_ratio * residual_zero_point)",
    lambda q, p: start(p, operands(q), "y"),
)
Y_ZERO = Argument("y_zero", "float", False, "the output zero point", lambda q, p: np.float32(p.y_zero_point))


def steps(quantization: Quantization) -> tuple[Step, ...]:
    """Return the steps of the sum with the residual, behind what makes units of `inner_scale`."""
    first, last = (TERMS[of] for of in operands(quantization))
    summed = step_of("add_requantized", (first, last), OFFSET, (INNER.ratio, RESIDUAL.ratio, OFFSET))
    if quantization.constant != "none":  # what it makes has the zero point of `inner`
        return to_byte("requantize_sum", quantization), summed
    has_zero = quantization.inner_zero_point
    return to_byte("requantize_own", quantization, INNER_ZERO if has_zero else None), summed


def to_byte(name: str, quantization: Quantization, zero: Argument | None = None) -> Step:
    """Return the step that rounds the value, adds a zero point, and clamps it to the type of the output."""
    low, high = RANGES[quantization.out_type]
    whole = "tile::rounded(value)" if zero is None else f"tile::rounded(value, channel.{zero.name})"

    def rounded(value: Array, v: Values) -> Array:
        moved: Array = np.clip(np.rint(value) + (np.float32(0) if zero is None else v[zero.name]), low, high)
        return moved

    return Step(
        name,
        f"value = tile::clamp({whole}, {low}.0f, {high}.0f);",
        rounded,
        () if zero is None else (zero,),
    )


def step_of(name: str, terms: tuple[Term, Term], begin: Argument, arguments: tuple[Argument, ...]) -> Step:
    """Return the step that adds the first and the last term to the start value."""
    first, last = terms
    begun = first.onto(f"channel.{begin.name}", "channel")
    return Step(
        name,
        f"value = {last.onto(begun, 'channel')};",
        lambda value, v: last.added(value, v, first.added(value, v, v[begin.name])),
        arguments,
    )


def store(quantization: Quantization) -> Step:
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
    return Step("requantize", f"result = {inside};", stored, (Y_ZERO,) if has_zero else ())
