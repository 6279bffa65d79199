"""The rounding of a real number to a narrower float, in NumPy: half to even, once. 8-bit floats saturate, infinities
included, as OCP's saturating conversion does; their NaN is 0x7f."""

from __future__ import annotations

import numpy as np

from qconv.arithmetic.step import Array
from qconv.dtypes import ELEMENT_TYPES, FLOAT8

NAN_OF_FLOAT8 = 0x7F


def narrow(value: Array, out_type: str) -> Array:
    """Round to a float type. NumPy converts fp64 to bfloat16 and to 8 bits through fp32; the first conversion rounds to
    odd, so that the two equal a single rounding."""
    if value.dtype == np.float64 and out_type in ("bfloat16", *FLOAT8):
        value = _to_odd(value)
    element_type = ELEMENT_TYPES[out_type]
    if out_type not in FLOAT8:
        with np.errstate(over="ignore"):
            return value.astype(element_type.numpy)
    most = element_type.largest_finite
    bits = np.clip(value, -most, most).astype(element_type.numpy).view(np.uint8)
    return np.where(np.isnan(value), np.uint8(NAN_OF_FLOAT8), bits).view(element_type.numpy)


def _to_odd(value: Array) -> Array:
    with np.errstate(over="ignore"):
        near = value.astype(np.float32)
    bits = near.view(np.uint32)
    wide = near.astype(np.float64)
    bits = np.where(np.abs(wide) > np.abs(value), bits - np.uint32(1), bits)
    return np.where(wide != value, bits | np.uint32(1), bits).astype(np.uint32).view(np.float32)
