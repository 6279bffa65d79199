"""Elementary functions in NumPy, with the bits of the C++ functions of their names in
templates/families/expression/elementary.j2.

Both use only operations that IEEE 754 rounds correctly, in the same order. Every function returns NaN for NaN, and at
infinities, at zeros of either sign and outside its domain the result of C's function of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

from qconv.arithmetic.activation import MINUS_LN2_HIGH, MINUS_LN2_LOW, MOST_EXPONENT, exponential, horner
from qconv.arithmetic.fma import Array, fma

# Coefficients from the constant term up, fitted so that the largest error relative to the function is least:
# log: (log(1 + x) - x + x**2 / 2) / x**3, for 1 + x between the roots of 1/2 and of 2
# erf: erf(x) / x - 1 in x**2, below 1; erfc: -log(1 - erf(x)), between 1 and 4
# cos: (cos(x) - 1 + x**2 / 2) / x**4 in x**2, below pi / 4
# the others: (f(x) / x - 1) / x**2 in x**2; sin below pi / 4, asin below 1/2, atan below tan(pi / 8), sinh below 1
POLYNOMIALS: dict[str, tuple[float, ...]] = {
    "log": (
        *(0.33333313, -0.2500001, 0.20002119, -0.16667996, 0.14219551),
        *(-0.124055915, 0.11888175, -0.11675641, 0.06746601),
    ),
    "erf": (0.12837917, -0.37612626, 0.112835854, -0.026853811, 0.0051883277, -0.00080101925, 7.853858e-05),
    "erfc": (
        *(-0.00020206545, 1.1296494, 0.63306576, 0.1086066, -0.025348926),
        *(0.0042706365, -0.00046035784, 2.475424e-05, -2.120859e-07),
    ),
    "sin": (-0.16666667, 0.008333329, -0.00019839335, 2.7183116e-06),
    "cos": (0.041666646, -0.0013887368, 2.443845e-05),
    "asin": (0.16666754, 0.074952416, 0.045477096, 0.024147611, 0.042218547),
    "atan": (-0.33333316, 0.1999849, -0.14243849, 0.10595998, -0.060834456),
    "sinh": (0.16666667, 0.0083333505, 0.00019836066, 2.8174397e-06),
}
# Power series in fp64: (log((1 + x) / (1 - x)) / x in x**2, for x below 0.18, and e**x for x below log(2) / 2.
SERIES: dict[str, tuple[float, ...]] = {
    "logarithm": tuple(2 / (2 * k + 1) for k in range(9)),
    "exponential": tuple(1 / factorial(k) for k in range(12)),
}
ONE, HALF, TWO = np.float32(1), np.float32(0.5), np.float32(2)
INFINITY, NAN = np.float32(np.inf), np.float32(np.nan)
LN2, PI, HALF_PI, QUARTER_PI = (np.float32(value) for value in (np.log(2), np.pi, np.pi / 2, np.pi / 4))
# pi / 2 is the sum of these.
HALF_PI_PARTS = tuple(np.float32(part) for part in (1.57079637, -4.37113883e-08, -1.71512434e-15))
TWO_OVER_PI = np.float32(2 / np.pi)
# A rest of an argument's division by pi / 2 is no larger, except where the argument has no digits for it.
MOST_REST = np.float32(0.8)
ROOT_OF_HALF = 0x3F3504F3  # the bits of sqrt(1/2)
# Beyond it, the square of an argument hides the one that is added to it.
FAR = np.float32(8192)
# Adding 1.5 * 2**52 to a double leaves a last bit of value one.
ONES_LAST = 6755399441055744.0
LOG2_E_64, LN2_64 = 1.4426950408889634, 0.6931471805599453
# Between these, e**x is neither zero nor infinite in fp32.
LEAST_POWER, MOST_POWER = -120.0, 100.0


def _signed(magnitude: Array, like: Array) -> Array:
    return np.copysign(magnitude, like)


def _odd(x: Array, name: str) -> Array:
    """Return x plus x**3 times a polynomial of x**2."""
    square = x * x
    return fma(x * square, horner(square, POLYNOMIALS[name]), x)


def _split(a: Array) -> tuple[Array, Array]:
    """Return the significand, from the root of 1/2 to that of 2, and the exponent of positive numbers."""
    is_denormal = a < np.float32(2.0**-126)
    bits = np.where(is_denormal, a * np.float32(2.0**23), a).view(np.int32) - np.int32(ROOT_OF_HALF)
    exponent = (bits >> 23) - np.where(is_denormal, np.int32(23), np.int32(0))
    significand = ((bits & np.int32(0x7FFFFF)) + np.int32(ROOT_OF_HALF)).view(np.float32)
    return significand, exponent.astype(np.float32)


def log(a: Array) -> Array:
    is_usual = (a > 0) & (a < INFINITY)
    significand, exponent = _split(np.where(is_usual, a, ONE))
    f = significand - ONE
    square = f * f
    rest = square * f * horner(f, POLYNOMIALS["log"])
    rest = fma(square, -HALF, fma(exponent, -MINUS_LN2_LOW, rest))
    made = fma(exponent, -MINUS_LN2_HIGH, f + rest)
    return np.where(is_usual, made, np.where(a == 0, -INFINITY, np.where(a < 0, NAN, a)))


def log1p(a: Array) -> Array:
    u = ONE + a
    lost = (a - (u - ONE)) / u
    made = log(u)
    return np.where(u == 1, a, np.where((u > 0) & (u < INFINITY), made + lost, made))


def exp(a: Array) -> Array:
    """Return e**a; far from zero as a square, because `exponential` is limited."""
    half = exponential(HALF * a)
    return np.where(np.abs(a) > MOST_EXPONENT, half * half, exponential(a))


def _below_one(a: Array, near: Callable[[Array], Array], far: Callable[[Array], Array]) -> Array:
    """Return an odd function, by another approximation below 1 than above."""
    size = np.abs(a)
    made = np.where(size < 1, near(np.where(size < 1, a, ONE)), _signed(far(size), a))
    return np.where(np.isnan(a), a, made)


def erf(a: Array) -> Array:
    return _below_one(
        a,
        lambda small: fma(small, horner(small * small, POLYNOMIALS["erf"]), small),
        lambda size: ONE - exponential(-horner(np.where(size < 4, size, np.float32(4)), POLYNOMIALS["erfc"])),
    )


def _angle(a: Array) -> tuple[Array, Array]:
    """Return the rest of a division by pi / 2, rounded to nearest, and the quotient modulo 4."""
    turns = np.rint(a * TWO_OVER_PI)
    rest = a
    for part in HALF_PI_PARTS:
        rest = fma(turns, -part, rest)
    rest = np.minimum(np.maximum(rest, -MOST_REST), MOST_REST)
    return rest, (turns - np.float32(4) * np.floor(turns * np.float32(0.25))).astype(np.int32)


def _cosine(rest: Array) -> Array:
    square = rest * rest
    return fma(square * square, horner(square, POLYNOMIALS["cos"]), fma(square, -HALF, ONE))


def _turning(of: Callable[[Array, Array], Array], is_odd: bool) -> Callable[[Array], Array]:
    """Return a function of angles: NaN for infinities. An odd one is its argument near zero."""

    def function(a: Array) -> Array:
        is_usual = np.abs(a) < INFINITY
        made = of(*_angle(np.where(is_usual, a, ONE)))
        if is_odd:
            made = np.where(np.abs(a) < np.float32(2.0**-12), a, made)
        return np.where(is_usual, made, NAN)

    return function


def _sin(rest: Array, quadrant: Array) -> Array:
    made = np.where(quadrant & 1, _cosine(rest), _odd(rest, "sin"))
    return np.where(quadrant & 2, -made, made)


def _tan(rest: Array, quadrant: Array) -> Array:
    sine, cosine = _odd(rest, "sin"), _cosine(rest)
    is_turned = (quadrant & 1) == 1
    return np.where(is_turned, -cosine, sine) / np.where(is_turned, sine, cosine)


sin = _turning(_sin, is_odd=True)
cos = _turning(lambda rest, quadrant: _sin(rest, quadrant + 1), is_odd=False)
tan = _turning(_tan, is_odd=True)


def _half_angle(size: Array) -> Array:
    """Return asin(sqrt((1 - size) / 2)), which is half of acos(size)."""
    return _odd(np.sqrt(fma(size, -HALF, HALF)), "asin")


def asin(a: Array) -> Array:
    size = np.abs(a)
    far = fma(_half_angle(size), -TWO, HALF_PI)
    return np.where(size <= HALF, _odd(a, "asin"), _signed(far, a))


def acos(a: Array) -> Array:
    half = _half_angle(np.abs(a))
    far = np.where(a > 0, TWO * half, fma(half, -TWO, PI))
    return np.where(np.abs(a) <= HALF, HALF_PI - _odd(a, "asin"), far)


def atan(a: Array) -> Array:
    size = np.abs(a)
    is_large, is_middle = size > np.float32(2.4142137), size > np.float32(0.41421357)
    top = np.where(is_large, -ONE, np.where(is_middle, size - ONE, size))
    bottom = np.where(is_large, size, np.where(is_middle, size + ONE, ONE))
    base = np.where(is_large, HALF_PI, np.where(is_middle, QUARTER_PI, np.float32(0)))
    return _signed(base + _odd(top / bottom, "atan"), a)


def _hyperbolic(size: Array, sign: np.float32) -> Array:
    """Return (e**size + sign e**-size) / 2 for size >= 1, or for any if the sign is positive."""
    half, whole = exponential(HALF * size), exponential(size)
    return np.where(size > MOST_EXPONENT, (HALF * half) * half, HALF * (whole + sign / whole))


def sinh(a: Array) -> Array:
    return _below_one(a, lambda small: _odd(small, "sinh"), lambda size: _hyperbolic(size, -ONE))


def cosh(a: Array) -> Array:
    return _hyperbolic(np.abs(a), ONE)


def asinh(a: Array) -> Array:
    size = np.abs(a)
    square = size * size
    near = log1p(size + square / (ONE + np.sqrt(square + ONE)))
    return _signed(np.where(size > FAR, log(size) + LN2, near), a)


def acosh(a: Array) -> Array:
    above = a - ONE
    near = log1p(above + np.sqrt(fma(above, above, TWO * above)))
    return np.where(a > FAR, log(a) + LN2, np.where(a >= 1, near, NAN))


def atanh(a: Array) -> Array:
    size = np.abs(a)
    return _signed(HALF * log1p(TWO * size / (ONE - size)), a)


def _series(name: str, x: Array) -> Array:
    *rest, last = SERIES[name]
    total = np.full_like(x, last)
    for term in reversed(rest):
        total = x * total + term
    return total


def _power_of_two(exponent: Array) -> Array:
    return ((exponent + np.int32(127)) << 23).view(np.float32).astype(np.float64)


def _raised(a: Array, b: Array) -> Array:
    """Return a**b of positive numbers, computed in fp64."""
    significand, exponent = _split(a)
    wide = significand.astype(np.float64)
    f = (wide - 1.0) / (wide + 1.0)
    logarithm = exponent.astype(np.float64) * LN2_64 + f * _series("logarithm", f * f)
    x = np.minimum(np.maximum(b.astype(np.float64) * logarithm, LEAST_POWER), MOST_POWER)
    whole = (x * LOG2_E_64 + ONES_LAST) - ONES_LAST
    made = _series("exponential", x - whole * LN2_64)
    twos = whole.astype(np.int32)
    half = twos >> 1
    return (made * _power_of_two(half) * _power_of_two(twos - half)).astype(np.float32)


def power(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    size = np.abs(a)
    is_usual = (size > 0) & (size < INFINITY) & ~np.isnan(b)
    is_whole = np.floor(b) == b
    is_odd = is_whole & (np.floor(HALF * b) != HALF * b)
    made = _raised(np.where(is_usual, size, ONE), np.where(is_usual, b, ONE))
    made = np.where(is_usual, made, np.where((size == 0) == (b < 0), INFINITY, np.float32(0)))
    made = np.where(size == 1, ONE, made)
    made = np.where(is_odd & np.signbit(a), -made, made)
    made = np.where((a < 0) & (size < INFINITY) & ~is_whole, NAN, made)
    made = np.where(np.isnan(a) | np.isnan(b), NAN, made)
    return np.where((b == 0) | (a == 1), ONE, made)
