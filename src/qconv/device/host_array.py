"""Arrays of other libraries that lie on the host, as NumPy's."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

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
