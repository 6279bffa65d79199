"""The floats at which the rounding to an 8-bit float changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.dtypes import ELEMENT_TYPES


def float8_boundaries(dtype: str) -> NDArray[Any]:
    """Return every number of the type, what lies midway between two neighbours, the floats beside both, numbers beyond
    the largest, infinities, NaN and both zeros."""
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy).astype(np.float32)
    finite = np.unique(every[np.isfinite(every)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    exact = np.concatenate([finite, middle, finite[-1:] * np.float32(1.0625), finite[:1] * 4])
    beside = [np.nextafter(exact, np.float32(end)) for end in (-np.inf, np.inf)]
    special = np.asarray([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    return np.concatenate([exact, *beside, special])
