"""Arrays of which some elements are not to be read."""

from __future__ import annotations

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
