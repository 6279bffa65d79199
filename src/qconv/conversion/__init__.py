"""Quantize, dequantize, requantize, choose and dynamic: the problems, their arithmetic as data, and their oracle."""

from __future__ import annotations

from qconv.conversion.problem import (
    FLAGS,
    OPS,
    REALS,
    Choose,
    Conversion,
    Dequantize,
    Dynamic,
    Quantize,
    Requantize,
)
from qconv.dtypes import INTEGERS

__all__ = [
    "FLAGS",
    "INTEGERS",
    "OPS",
    "REALS",
    "Choose",
    "Conversion",
    "Dequantize",
    "Dynamic",
    "Quantize",
    "Requantize",
]
