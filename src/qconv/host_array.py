"""Arrays of which some elements are not to be read.

Arrays of other libraries that lie on the host, as NumPy's.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np


def check_unmasked(name: str, array: Any) -> None:
    """Kernels read memory, where a masked element is a number as any other. Every array of a caller is asked."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        count = np.count_nonzero(array.mask)
        raise ValueError(
            f"{name} masks {count} of its {array.size} elements, and a kernel would read what lies under the mask: "
            "give array.filled(value), or array.data if all of it counts"
        )


# What NumPy and other libraries say where one cannot read the other's array.
UNREADABLE = (AttributeError, TypeError, BufferError, RuntimeError, ValueError)
_CPU = 1  # kDLCPU


def as_numpy(value: Any) -> Any:
    """In the same memory. Everything else stays as it is: numbers, lists, and what lies elsewhere."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return value
    with contextlib.suppress(*UNREADABLE):
        if int(value.__dlpack_device__()[0]) == _CPU:
            return np.from_dlpack(value)
    return value
