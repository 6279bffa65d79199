"""fp32 a * b + c with one rounding, where fp64 alone would round twice."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from qconv.arithmetic.fma import fma


def rounded_once(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    guess = np.float32(float(exact))
    near = (guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf)))
    # The nearest; of two equally near ones, the one with an even mantissa.
    return min(near, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.uint32)) & 1))


def test_half_way_cases_are_decided_by_what_fp64_lost() -> None:
    """With addends that are too small for fp64, of either sign, and with numbers that are not half-way."""
    half_way = np.float32(1 + 2.0**-12)  # its square is half-way between two floats
    triples = [
        (sign * half_way * scale, half_way, np.float32(tiny * scale))
        for sign in (1, -1)
        for scale in (np.float32(1), np.float32(3), np.float32(2.0**20))
        for tiny in (2.0**-80, -(2.0**-80), 0.0)
    ]
    rng = np.random.default_rng(1)
    triples += [tuple(each) for each in rng.standard_normal((200, 3)).astype(np.float32)]
    a, b, c = (np.array(column, np.float32) for column in zip(*triples, strict=True))
    want = np.array([rounded_once(*each) for each in zip(a, b, c, strict=True)], np.float32)
    assert np.array_equal(fma(a, b, c), want)
