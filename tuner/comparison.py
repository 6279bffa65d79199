"""Bit for bit: what an output holds before a launch that is to be verified, and in what it differs afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qconv.op import Tensor
from qconv.step import Array


def opposite(expected: Array) -> Array:
    """Every bit is the other one: whatever a kernel leaves unwritten is wrong, be it a single byte of an element. Of a
    constant poison, one in 256 bytes is right by accident."""
    return (~bits(expected)).view(expected.dtype).reshape(expected.shape)


def differences(tensors: Sequence[Tensor], outs: Sequence[Array], expected: Sequence[Array]) -> str | None:
    """None where every bit of every output is right, else how many elements of which are wrong, and the first."""
    said = [_difference(*each) for each in zip(tensors, outs, expected, strict=True)]
    return "; ".join(one for one in said if one is not None) or None


def bits(array: Array) -> Array:
    """As unsigned integers: -0.0 is not 0.0, and NaN is itself."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel()


def _difference(tensor: Tensor, got: Array, expected: Array) -> str | None:
    got_bits, expected_bits = bits(got), bits(expected)
    wrong = np.flatnonzero(got_bits != expected_bits)
    if wrong.size == 0:
        return None
    first = wrong[0]
    where = tuple(int(i) for i in np.unravel_index(first, tensor.shape))
    shown = [str(got[where]), str(expected[where])]
    if shown[0] == shown[1]:  # two NaN
        shown = [
            f"{text} ({int(value[first]):#x})" for text, value in zip(shown, (got_bits, expected_bits), strict=True)
        ]
    return (
        f"{wrong.size} of {got.size} outputs {tensor.name} differ from the oracle; the first at {where}: "
        f"{shown[0]} instead of {shown[1]}"
    )
