"""fp32 a * b + c with one rounding, like `fma` in C."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def fma(a: Array | np.float32, b: Array | np.float32, c: Array | np.float32) -> Array:
    """Return a * b + c with one rounding. The product is exact in fp64. The sum is rounded to fp64 first, which is
    wrong only where that result lies halfway between two floats or below the smallest normal one; those are
    corrected."""
    product = np.multiply(a, b, dtype=np.float64)
    total = np.asarray(np.add(product, c, dtype=np.float64))
    half_way = (total.view(np.int64) & (2**29 - 1)) == 2**28
    doubtful = half_way | (np.abs(total) < np.finfo(np.float32).tiny)
    if doubtful.any():
        operands = (np.broadcast_to(each, total.shape)[doubtful] for each in (product, c, total))
        total[doubtful] = _rounded_to_odd(*operands)
    return total.astype(np.float32)


def _rounded_to_odd(product: Array, addend: Array, total: Array) -> Array:
    """Return the fp64 sum rounded to odd, so that rounding it to fp32 equals a single rounding of the exact sum."""
    addend = addend.astype(np.float64)
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    away = np.where((lost > 0) == (total > 0), 1, -1)  # away from zero, or toward it
    odd: Array = bits + np.where((lost != 0) & (bits & 1 == 0), away, 0)
    return odd.view(np.float64)
