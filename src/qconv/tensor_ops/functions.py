"""Functions of one quantized tensor as tables of 256 entries.

`identity` (a change of scale), `relu`, `leaky_relu` and `sigmoid` equal ONNX Runtime's bit for bit: those of
QLinearConcat, QLinearLeakyRelu and QLinearSigmoid. The others are the activations of `qconv.arithmetic.activation`. Any
other function may be given as a function of a float32 array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.fma import fma
from qconv.arithmetic.parameter import ENTRIES
from qconv.dtypes import RANGES
from qconv.op import Array, check_choice, quoted
from qconv.tensor_ops.problem import BYTES, Parameters

Function = Callable[[Array], Array]

# sigmoid(x) - 1/2 as x P(x**2) / Q(x**2), coefficients from the highest power down, from Eigen and ONNX Runtime. Inputs
# beyond 18 count as 18.
NUMERATOR = (
    4.37031012579801e-11,
    1.15627324459942e-07,
    6.08574864600143e-05,
    8.51377133304701e-03,
    2.48287947061529e-01,
)
DENOMINATOR = (
    *(6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06),
    *(1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01),
)
FARTHEST = np.float32(18)


@dataclass(frozen=True)
class UnaryParameters(Parameters):
    x_scale: Any = 1.0
    y_scale: Any = 1.0
    x_zero_point: Any = 0
    y_zero_point: Any = 0


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    first, *rest = np.asarray(coefficients, np.float32)
    value = np.full_like(x, first)
    for coefficient in rest:
        value = fma(value, x, coefficient)
    return value


def sigmoid(x: Array) -> Array:
    x = np.clip(x, -FARTHEST, FARTHEST)
    quotient = _horner(x * x, NUMERATOR) * x / _horner(x * x, DENOMINATOR)
    return np.clip(quotient + np.float32(0.5), np.float32(0), np.float32(1))


def _activation(name: str) -> Function:
    return lambda x: BY_NAME[name].numpy(x, {})


FUNCTIONS: dict[str, Function] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, np.float32(0)),
    "sigmoid": sigmoid,
    **{name: _activation(name) for name in ("hardswish", "silu", "tanh", "gelu")},
}
# Functions with a parameter.
WITH_ALPHA: dict[str, Callable[[Array, np.float32], Array]] = {
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
}


def named(function: str, alpha: Any = None) -> Function:
    """Return a function by name. Raise ValueError where it does not exist, or where its parameter is missing."""
    check_choice("function", function, (*FUNCTIONS, *WITH_ALPHA))
    if (alpha is None) == (function in WITH_ALPHA):
        says = "needs alpha: give a number" if alpha is None else f"has no alpha, but {alpha!r} was given: leave it out"
        raise ValueError(f"function={function!r} {says}")
    if function in FUNCTIONS:
        return FUNCTIONS[function]
    if np.asarray(alpha).dtype.kind not in "iuf" or np.size(alpha) != 1:
        raise ValueError(f"alpha={quoted(alpha)} must be one number: every element is multiplied by the same")
    alpha = np.asarray(alpha).item()
    return lambda x: WITH_ALPHA[function](x, np.float32(alpha))


def table_of(function: Function, x_type: str, out_type: str, **numbers: Any) -> Array:
    """Return the table of a function of real numbers. `numbers` are the scales and zero points of both sides. The
    arithmetic is fp32, rounded half to even before the zero point is added."""
    check_choice("x_type", x_type, BYTES)
    check_choice("out_type", out_type, BYTES)
    if not callable(function):
        known = ", ".join((*FUNCTIONS, *WITH_ALPHA))
        raise ValueError(f"function={quoted(function)} must be one of {known}, or a function of a float32 array")
    p = UnaryParameters.of(numbers, {"x_zero_point": x_type, "y_zero_point": out_type})
    codes = np.arange(ENTRIES, dtype=np.uint8).view(x_type).astype(np.int32)
    low, high = (np.float32(end - p.y_zero_point) for end in RANGES[out_type])
    with np.errstate(all="ignore"):
        real = np.asarray(function(p.x_scale * (codes - p.x_zero_point).astype(np.float32)), np.float32)
        if real.shape != (ENTRIES,):
            raise ValueError(f"the function gave shape {real.shape} for {ENTRIES} numbers: it must work by element")
        # A NaN becomes the smallest output.
        clamped = np.fmin(np.fmax(real / p.y_scale, low), high)
    table: Array = (np.rint(clamped).astype(np.int32) + p.y_zero_point).astype(out_type)
    return table


def rescaled(x_type: str, **numbers: Any) -> Array | None:
    """Return the table of a change of scale, as in QLinearConcat; None where it changes no byte."""
    table = table_of(FUNCTIONS["identity"], x_type, x_type, **numbers)
    return None if np.array_equal(table.view(np.uint8), np.arange(ENTRIES)) else table
