"""Arrays of narrow floats of libraries whose interfaces to others know no such type: their bits are passed instead."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from qconv.dtypes import ELEMENT_TYPES

# Integers that lie in the same bytes. Half is known to all interfaces.
BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def type_of(array: Any) -> str:
    """Return the name of the element type, such as PyTorch's torch.bfloat16 as bfloat16."""
    return _named(getattr(array, "dtype", type(array).__name__))


@lru_cache(maxsize=64)
def _named(dtype: Any) -> str:
    """Return a type's name. NumPy takes 5 us to make it, and a run asks several times."""
    return str(dtype).removeprefix("torch.")


def as_bits(array: Any) -> Any:
    """View PyTorch's array of a narrow float as integers, without a copy. Return any other unchanged."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor) or type_of(array) not in BITS:
        return array
    return array.detach().view(getattr(torch, BITS[type_of(array)]))


def of_library(library: Any, array: Any, name: str | None = None) -> Any:
    """Hand an array over to a library by DLPack, in the same memory; a narrow float as its bits, if it has the type.
    `name` is the element type where the array itself holds bits."""
    name = name or type_of(array)
    if name in BITS and (own := getattr(library, name, None)) is not None:
        return library.from_dlpack(array.view(BITS[name])).view(own)
    return library.from_dlpack(array)


def numpy_of(bits: Any, name: str) -> Any:
    """View NumPy's or CuPy's integers as the narrow float with this name."""
    return bits.view(ELEMENT_TYPES[name].numpy)
