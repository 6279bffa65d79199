"""One step of an epilogue: a C++ line beside its NumPy line, and the run-time values that both read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.quantization import Parameters, Quantization

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


def fused(a: Array | np.float32, b: Array | np.float32, c: Array | np.float32) -> Array:
    """fp32 a * b + c with one rounding. The product is exact in fp64, and the sum is rounded there first: that shows
    where it then is half-way between two floats, or below the least normal one."""
    product = np.multiply(a, b, dtype=np.float64)
    total = np.asarray(np.add(product, c, dtype=np.float64))
    half_way = (total.view(np.int64) & (2**29 - 1)) == 2**28
    doubtful = half_way | (np.abs(total) < np.finfo(np.float32).tiny)
    if doubtful.any():
        operands = (np.broadcast_to(each, total.shape)[doubtful] for each in (product, c, total))
        total[doubtful] = _rounded_to_odd(*operands)
    return total.astype(np.float32)


def _rounded_to_odd(product: Array, addend: Array, total: Array) -> Array:
    """The fp64 sum, inexact as it may be, such that rounding it again is as if it were the only time."""
    addend = addend.astype(np.float64)
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    away = np.where((lost > 0) == (total > 0), 1, -1)  # from zero, or toward it
    odd: Array = bits + np.where((lost != 0) & (bits & 1 == 0), away, 0)
    return odd.view(np.float64)
