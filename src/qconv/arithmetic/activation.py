"""The activations and everything that differs between them: each C++ line beside an equivalent NumPy line.

Both use only operations that IEEE 754 rounds correctly, in a fixed order, so that every compiler and NumPy agree bit
for bit. A function that a line calls in `tile::` is in templates/prelude/activation.j2, under its name here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qconv.arithmetic.fma import Array, fma

# e**87 and its inverse are neither infinite nor denormal.
MOST_EXPONENT = np.float32(87)
LOG2_E = np.float32(1.44269504)
BLOCK = 2**14  # numbers per pass: few enough to stay in the cache from step to step
# Adding 1.5 * 2**23 to a float leaves a last bit of value one.
ONES_LAST = np.float32(12582912)
# -ln 2 in two parts. The first has few significant bits, so that its product with an exponent is exact.
MINUS_LN2_HIGH, MINUS_LN2_LOW = np.float32(-0.693359375), np.float32(2.12194440e-4)

# Coefficients from the constant term up. Those of exponential, (e**r - 1 - r) / r**2, and of tanh, (tanh(x) / x - 1) /
# x**2 in x**2, are from the Cephes library. Those of gelu, P(X > x) e**(x**2 / 2) / t in t = 1 / (1 + 0.35 x) for X of
# the normal distribution, are fitted to a relative error of 3e-8.
POLYNOMIALS: dict[str, tuple[float, ...]] = {
    "exponential": (
        5.0000001201e-1,
        1.6666665459e-1,
        4.1665795894e-2,
        8.3334519073e-3,
        1.3981999507e-3,
        1.9875691500e-4,
    ),
    "tanh": (-3.33332819422e-1, 1.33314422036e-1, -5.37397155531e-2, 2.06390887954e-2, -5.70498872745e-3),
    "gelu": (
        *(0.13962124288082123, 0.1398644894361496, 0.11981435865163803, 0.10557948052883148, -0.023275384679436684),
        *(0.15941046178340912, -0.2559179663658142, 0.14406895637512207, -0.029165679588913918),
    ),
}


def flush(x: Array) -> Array:
    """Replace denormals with zeros of the same sign. A GPU may or may not flush fp32 denormals; none flushes fp64.

    The smallest normal numbers are flushed as well, because hardware may flush a value that rounds up to one."""
    if x.dtype != np.float32:
        return x
    least = np.float32(2.0**-125)
    return np.where((x > -least) & (x < least), np.copysign(np.float32(0), x), x)


def horner(x: Array, terms: tuple[float, ...]) -> Array:
    *rest, last = (np.float32(term) for term in terms)
    total: Array = np.full_like(x, last)
    for term in reversed(rest):
        total = fma(x, total, term)
    return total


def exponential(x: Array) -> Array:
    x = np.minimum(np.maximum(x, -MOST_EXPONENT), MOST_EXPONENT)
    shifted = fma(x, LOG2_E, ONES_LAST)
    whole = shifted - ONES_LAST
    r = fma(whole, MINUS_LN2_LOW, fma(whole, MINUS_LN2_HIGH, x))
    e_to_r = fma(r * r, horner(r, POLYNOMIALS["exponential"]), r) + np.float32(1)
    result: Array = np.ldexp(e_to_r, whole.astype(np.int32))
    return result


def sigmoid(x: Array) -> Array:
    result: Array = np.float32(1) / (np.float32(1) + exponential(-x))
    return result


def silu(x: Array) -> Array:
    return flush(np.maximum(x, -MOST_EXPONENT) * sigmoid(x))


def tanh(x: Array) -> Array:
    x = flush(x)
    magnitude = np.abs(x)
    is_small = magnitude < np.float32(0.625)
    small = np.where(is_small, x, np.float32(0))
    square = small * small
    near = fma(small * square, horner(square, POLYNOMIALS["tanh"]), small)
    far = np.float32(1) - np.float32(2) / (exponential(np.float32(2) * magnitude) + np.float32(1))
    result: Array = np.where(is_small, near, np.copysign(far, x))
    return result


def hardswish(x: Array) -> Array:
    gate = np.minimum(np.maximum(x + np.float32(3), np.float32(0)), np.float32(6))
    # Below -3 the gate is zero, and zero times an overflowed value would be NaN.
    return flush(np.maximum(x, np.float32(-3)) * gate / np.float32(6))


def gelu(x: Array) -> Array:
    """Return x * P(X < x) for X of the normal distribution, computed as max(x, 0) - |x| * P(X > |x|) to avoid
    cancellation in the tail."""
    a = np.minimum(np.abs(x), np.float32(16))
    t = np.float32(1) / fma(np.float32(0.35), a, np.float32(1))
    tail = flush(a * t * horner(t, POLYNOMIALS["gelu"]) * exponential(a * a * np.float32(-0.5)))
    return flush(np.where(x > 0, x, np.float32(0)) - tail)


def leaky_relu(x: Array, slope: Any) -> Array:
    x = flush(x)
    # Clamp to finite values: an overflowed value times a slope of zero would be NaN.
    return flush(np.where(x < 0, np.maximum(x, np.finfo(x.dtype).min) * slope, x))


@dataclass(frozen=True)
class Number:
    """A number that an activation reads: a field of `channel` in C++, an entry of the values in NumPy."""

    name: str  # the C++ field and the caller's parameter
    says: str
    fixed: float | None = None  # the same for all callers, who then have no such parameter
    is_value: bool = True  # compared with the value, in its units; otherwise a factor without units


@dataclass(frozen=True)
class Inputs:
    """Ranges for random data, so that an activation sees values on both sides of its bend."""

    spread: tuple[float, float] | None = None  # of real values, for a curve or one that saturates at a fixed number
    center: float = 1.0  # bound of |mean| of a channel, in standard deviations
    one_sign: bool = False  # most values are positive, because all negative ones give the same output
    one_sided: bool = False  # all outputs have one sign, so that a zero point at an end of the type leaves them room


@dataclass(frozen=True)
class Activation:
    name: str
    cxx: str
    numpy: Callable[[Array, dict[str, Any]], Array]
    numbers: tuple[Number, ...] = ()
    scales: bool = False  # it commutes with a positive scale, so that the value may be in any units
    instructions: int = 0  # per output, read from binaries of sm_90a; 0 for at most one
    inputs: Inputs = Inputs()
    # Its name elsewhere, where it has no numbers there: an op of ONNX, a function of aten, a module of PyTorch.
    onnx: str = ""
    aten: str = ""
    module: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters that the caller gives at run time."""
        return tuple(number.name for number in self.numbers if number.fixed is None)


def _curve(
    name: str,
    numpy: Callable[[Array], Array],
    *,
    instructions: int,
    spread: tuple[float, float],
    center: float = 1.0,
    one_sided: bool = False,
    onnx: str = "",
    aten: str = "",
    module: str = "",
) -> Activation:
    def in_blocks(value: Array, _: Any) -> Array:
        flat = value.reshape(-1)
        blocks = [numpy(flat[at : at + BLOCK]) for at in range(0, flat.size, BLOCK)]
        return np.concatenate(blocks).reshape(value.shape)

    return Activation(
        name,
        f"value = tile::{name}(value);",
        in_blocks,
        instructions=instructions,
        inputs=Inputs(spread, center, one_sided=one_sided),
        onnx=onnx,
        aten=aten,
        module=module,
    )


BY_NAME = {
    each.name: each
    for each in (
        Activation("none", "", lambda value, v: value, scales=True),
        Activation(
            "relu",
            "value = tile::maximum(value, 0.0f);",
            lambda value, v: np.maximum(value, np.float32(0)),
            scales=True,
            inputs=Inputs(one_sign=True),
            onnx="Relu",
            aten="relu",
            module="ReLU",
        ),
        Activation(
            "relu6",
            "value = tile::minimum(tile::maximum(value, 0.0f), channel.top);",
            lambda value, v: np.minimum(np.maximum(value, np.float32(0)), v["top"]),
            (Number("top", "6", fixed=6.0),),
            scales=True,
            inputs=Inputs((2.0, 3.5), one_sign=True),
            aten="relu6",
            module="ReLU6",
        ),
        Activation(
            "leaky_relu",
            "value = tile::leaky_relu(value, channel.slope);",
            lambda value, v: leaky_relu(value, v["slope"]),
            (Number("slope", "of negative values", is_value=False),),
            scales=True,
            instructions=8,
        ),
        Activation(
            "clamp",
            "value = tile::clamp(value, channel.low, channel.high);",
            lambda value, v: np.minimum(np.maximum(value, v["low"]), v["high"]),
            (Number("low", "the least value"), Number("high", "the largest value")),
            scales=True,
        ),
        _curve(
            "hardswish",
            hardswish,
            instructions=13,
            spread=(1.0, 3.0),
            onnx="HardSwish",
            aten="hardswish",
            module="Hardswish",
        ),
        _curve(
            "sigmoid",
            sigmoid,
            instructions=20,
            spread=(1.0, 2.5),
            center=0.7,
            one_sided=True,
            onnx="Sigmoid",
            aten="sigmoid",
            module="Sigmoid",
        ),
        _curve(
            "silu",
            silu,
            instructions=24,
            spread=(1.0, 3.0),
            onnx="Silu",
            aten="silu",
            module="SiLU",
        ),
        _curve(
            "tanh",
            tanh,
            instructions=44,
            spread=(0.6, 1.5),
            center=0.7,
            onnx="Tanh",
            aten="tanh",
            module="Tanh",
        ),
        _curve("gelu", gelu, instructions=57, spread=(0.7, 2.0)),
    )
}


def named(where: str) -> dict[str, str]:
    """The activations by their names elsewhere: in "onnx", in "aten", or as a "module" of PyTorch."""
    return {name: each.name for each in BY_NAME.values() if (name := getattr(each, where))}
