"""The element types: their NumPy dtype, their size, their integer range, and what C calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np


@dataclass(frozen=True)
class ElementType:
    name: str
    ctype: str  # in the generated sources, which include nothing
    stdint: str  # in C headers
    limits: tuple[int, int] | None = None  # of an integer type

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

    @property
    def bytes(self) -> int:
        return self.numpy.itemsize


# The 16-bit floats travel as their bits: sources that include nothing have no type for them on every target.
ELEMENT_TYPES = {
    element_type.name: element_type
    for element_type in (
        ElementType("int8", "signed char", "int8_t", (-128, 127)),
        ElementType("uint8", "unsigned char", "uint8_t", (0, 255)),
        ElementType("int16", "short", "int16_t", (-(2**15), 2**15 - 1)),
        ElementType("uint16", "unsigned short", "uint16_t", (0, 2**16 - 1)),
        ElementType("int32", "int", "int32_t", (-(2**31), 2**31 - 1)),
        ElementType("float16", "unsigned short", "uint16_t"),
        ElementType("bfloat16", "unsigned short", "uint16_t"),
        ElementType("float32", "float", "float"),
        ElementType("float64", "double", "double"),
    )
}
RANGES = {name: element_type.limits for name, element_type in ELEMENT_TYPES.items() if element_type.limits is not None}
INTEGERS = tuple(RANGES)
