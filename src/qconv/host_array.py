"""Checks and conversions of a caller's arrays: reject masked ones, and view host arrays of other libraries as
NumPy's."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from qconv.narrow_floats import as_bits, numpy_of, type_of


def check_unmasked(name: str, array: Any) -> None:
    """Reject an array with masked elements. A kernel reads memory, where a masked element is a number like any
    other."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        count = np.count_nonzero(array.mask)
        raise ValueError(
            f"{name} masks {count} of its {array.size} elements, and a kernel would read what lies under the mask: "
            "give array.filled(value), or array.data if all of it counts"
        )


# The errors of NumPy and other libraries when one cannot read the other's array.
UNREADABLE = (AttributeError, TypeError, BufferError, RuntimeError, ValueError)
_CPU = 1  # kDLCPU


def as_numpy(value: Any) -> Any:
    """View a host array of another library as NumPy's, without a copy. Return everything else unchanged: numbers,
    lists, and arrays on another device."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return value
    with contextlib.suppress(*UNREADABLE):
        if int(value.__dlpack_device__()[0]) == _CPU:
            bits = as_bits(value)
            host = np.from_dlpack(bits)
            return host if bits is value else numpy_of(host, type_of(value))
    return value
