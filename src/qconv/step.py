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


def fused(a: Array, b: Array, c: Array) -> Array:
    """fp32 a * b + c with one rounding. The product is exact in fp64; the sum is rounded there to odd, after which the
    rounding to fp32 is as if it were the only one."""
    a, b, addend = np.broadcast_arrays(*(np.asarray(operand, np.float64) for operand in (a, b, c)))
    product = a * b
    total = product + addend
    back = total - product
    lost = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(lost > 0, np.inf, -np.inf)
    rounded: Array = np.where((lost != 0) & even, np.nextafter(total, toward), total).astype(np.float32)
    return rounded
