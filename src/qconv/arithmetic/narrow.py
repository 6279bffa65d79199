"""The rounding of a real number to a narrower float, in NumPy and in C++: half to even, once. 8-bit floats saturate,
infinities included, as OCP's saturating conversion does; their NaN is 0x7f."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qconv.arithmetic.step import Array
from qconv.dtypes import ELEMENT_TYPES, FLOAT8

NAN_OF_FLOAT8 = 0x7F


@dataclass(frozen=True)
class NarrowFloat:
    """A float that sources hold as its bits: the C++ that makes a float of them, and that rounds a float to them."""

    read: str
    round: str
    nan: int  # the bits that a store writes for every NaN


def _of_words(name: str) -> NarrowFloat:
    word = ELEMENT_TYPES[name].word
    return NarrowFloat(f"tile::{word}::of({{}}, 0)", f"tile::Packed{word}::one({{}})", NAN_OF_FLOAT8)


NARROW_FLOATS = {
    "float16": NarrowFloat("tile::half_to_float({})", "tile::to_half({})", 0x7E00),
    "bfloat16": NarrowFloat("tile::bfloat16_to_float({})", "tile::to_bfloat16({})", 0x7FC0),
    **{name: _of_words(name) for name in FLOAT8},
}


def narrow(value: Array, out_type: str) -> Array:
    """Round to a float type. NumPy converts fp64 to bfloat16 and to 8 bits through fp32; the first conversion rounds to
    odd, so that the two equal a single rounding."""
    if value.dtype == np.float64 and out_type in ("bfloat16", *FLOAT8):
        value = _to_odd(value)
    element_type = ELEMENT_TYPES[out_type]
    if out_type not in FLOAT8:
        with np.errstate(over="ignore", invalid="ignore"):
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
