"""The sum of two quantized tensors as ONNX Runtime's QLinearAdd has it on x86 with AVX2, found by comparing all pairs
of bytes: fma(last, last_ratio, fma(first, first_ratio, offset)).

Which of the two is first decides some last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qconv.fma import fma
from qconv.step import Argument, Array, Values


class Linear(NamedTuple):
    """What the bytes of a tensor mean."""

    scale: Any
    zero_point: Any


@dataclass(frozen=True)
class Term:
    """One of the two: its element as a float, the line of C++ beside that of NumPy, and its ratio."""

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
    """What the sum begins with: y_zero_point - (first_ratio * first_zero_point + last_ratio * last_zero_point), the
    product of the last within the sum."""
    of_first = ratio(first.scale, y.scale) * np.float32(first.zero_point)
    both = fma(ratio(last.scale, y.scale), np.float32(last.zero_point), of_first)
    return np.float32(np.float32(y.zero_point) - both)
