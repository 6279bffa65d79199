"""The activations: each C++ line beside its NumPy line, bit for bit the same.

They use only operations that IEEE 754 rounds correctly, in a fixed order, so that every compiler and NumPy agree; what
a line calls in `tile::` stands in templates/prelude/activation.j2 under the name of the function here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qconv.quantization import Parameters, Quantization
from qconv.step import Argument, Array, Step, fused

# e**87 and its inverse are neither infinite nor denormal.
MOST_EXPONENT = np.float32(87)
LOG2_E = np.float32(1.44269504)
BLOCK = 2**14  # numbers at a time, which stay in the cache from step to step
# In a sum with 1.5 * 2**23 the last bit is worth one.
ONES_LAST = np.float32(12582912)
# -ln 2 in two parts: the first has so few bits that its product with an exponent is exact.
MINUS_LN2_HIGH, MINUS_LN2_LOW = np.float32(-0.693359375), np.float32(2.12194440e-4)

# Coefficients from the constant term up. Those of exponential, (e**r - 1 - r) / r**2, and of tanh, (tanh(x) / x - 1) /
# x**2 in x**2, are of the Cephes library; those of gelu, P(X > x) e**(x**2 / 2) / t in t = 1 / (1 + 0.35 x) for X of
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
    """A denormal becomes a zero of its sign, on every device: a GPU may do so by itself, or not. None does in fp64.

    The least normal numbers go as well, because hardware may flush what would have been rounded up to one."""
    if x.dtype != np.float32:
        return x
    least = np.float32(2.0**-125)
    return np.where((x > -least) & (x < least), np.copysign(np.float32(0), x), x)


def horner(x: Array, name: str) -> Array:
    *rest, last = (np.float32(term) for term in POLYNOMIALS[name])
    total: Array = np.full_like(x, last)
    for term in reversed(rest):
        total = fused(x, total, term)
    return total


def exponential(x: Array) -> Array:
    x = np.minimum(np.maximum(x, -MOST_EXPONENT), MOST_EXPONENT)
    shifted = fused(x, LOG2_E, ONES_LAST)
    whole = shifted - ONES_LAST
    r = fused(whole, MINUS_LN2_LOW, fused(whole, MINUS_LN2_HIGH, x))
    e_to_r = fused(r * r, horner(r, "exponential"), r) + np.float32(1)
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
    near = fused(small * square, horner(square, "tanh"), small)
    far = np.float32(1) - np.float32(2) / (exponential(np.float32(2) * magnitude) + np.float32(1))
    result: Array = np.where(is_small, near, np.copysign(far, x))
    return result


def hardswish(x: Array) -> Array:
    gate = np.minimum(np.maximum(x + np.float32(3), np.float32(0)), np.float32(6))
    # Below -3 the gate is zero, which an overflowed value would make NaN.
    return flush(np.maximum(x, np.float32(-3)) * gate / np.float32(6))


def gelu(x: Array) -> Array:
    """x * P(X < x) for X of the normal distribution, as max(x, 0) - |x| * P(X > |x|): no cancellation in the tail."""
    a = np.minimum(np.abs(x), np.float32(16))
    t = np.float32(1) / fused(np.float32(0.35), a, np.float32(1))
    tail = flush(a * t * horner(t, "gelu") * exponential(a * a * np.float32(-0.5)))
    return flush(np.where(x > 0, x, np.float32(0)) - tail)


def leaky_relu(x: Array, slope: Any) -> Array:
    x = flush(x)
    # Finite, because an overflowed value times a slope of zero would be NaN.
    return flush(np.where(x < 0, np.maximum(x, np.finfo(x.dtype).min) * slope, x))


def _bound(name: str, value: Callable[[Parameters], Any], says: str) -> Argument:
    """In the units that the activation sees: the output's where the value is multiplied by one number, else real."""

    def in_units(quantization: Quantization, parameters: Parameters) -> Array:
        real = np.asarray(value(parameters), np.float32)
        in_output_units = quantization.requantizes and quantization.mode.order == "multiply"
        with np.errstate(over="ignore"):
            return real / np.float32(parameters.y_scale) if in_output_units else real

    return Argument(name, "float", False, f"{says} in units of the output", in_units)


def _curve(name: str, numpy: Callable[[Array], Array], *wants: str) -> Step:
    def in_blocks(value: Array, _: Any) -> Array:
        flat = value.reshape(-1)
        blocks = [numpy(flat[at : at + BLOCK]) for at in range(0, flat.size, BLOCK)]
        return np.concatenate(blocks).reshape(value.shape)

    return Step(name, f"value = tile::{name}(value);", in_blocks, wants=("activation", name, *wants))


EXPONENTIAL = ("exponential", "fma", "bits")
ACTIVATIONS = {
    step.name: step
    for step in (
        Step("relu", "value = tile::maximum(value, 0.0f);", lambda value, v: np.maximum(value, np.float32(0))),
        Step(
            "relu6",
            "value = tile::minimum(tile::maximum(value, 0.0f), channel.top);",
            lambda value, v: np.minimum(np.maximum(value, np.float32(0)), v["top"]),
            (_bound("top", lambda p: 6.0, "6"),),
        ),
        Step(
            "leaky_relu",
            "value = tile::leaky_relu(value, channel.slope);",
            lambda value, v: leaky_relu(value, v["slope"]),
            (Argument("slope", "float", False, "of negative values", lambda q, p: p.slope),),
            ("activation", "leaky_relu"),
        ),
        Step(
            "clamp",
            "value = tile::clamp(value, channel.low, channel.high);",
            lambda value, v: np.minimum(np.maximum(value, v["low"]), v["high"]),
            (
                _bound("low", lambda p: p.low, "the least value"),
                _bound("high", lambda p: p.high, "the largest value"),
            ),
        ),
        _curve("hardswish", hardswish, "fma"),
        _curve("sigmoid", sigmoid, "reciprocal", *EXPONENTIAL),
        _curve("silu", silu, "sigmoid", "reciprocal", *EXPONENTIAL),
        _curve("tanh", tanh, "reciprocal", *EXPONENTIAL),
        _curve("gelu", gelu, "divide", *EXPONENTIAL),
    )
}
