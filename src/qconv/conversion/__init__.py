"""Quantize, dequantize, requantize, choose and dynamic: the problems, their arithmetic as data, and their oracle."""

from __future__ import annotations

from qconv.conversion.problem import (
    CONVERSIONS,
    FLAGS,
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
    "CONVERSIONS",
    "FLAGS",
    "INTEGERS",
    "REALS",
    "Choose",
    "Conversion",
    "Dequantize",
    "Dynamic",
    "Quantize",
    "Requantize",
]
