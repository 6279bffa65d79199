"""Random operands: integers of a type, zero points, and integers with a wanted mean. `Variety` judges the outputs.

Operands are uniform over their type. Without a bias, sums of a channel may run far from zero; then some operands are
moved to the eighth of the range next to one end. All values still occur.

A comparison of outputs means something only if they have many values, none of them in most outputs, and no constant
channel: an output of one value is right however the kernel computed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from qconv.dtypes import ELEMENT_TYPES

Array = NDArray[Any]

LEAST_VALUES = 32
# With at least this many outputs, LEAST_VALUES values are required.
MANY_OUTPUTS = 256
# With at least this many outputs, no value may occur in more than half.
SOME_OUTPUTS = 16
MOST_OF_ONE_VALUE = 0.5
# With at least this many outputs per channel, no channel may be constant.
OF_A_CHANNEL = 16


@dataclass(frozen=True)
class Variety:
    outputs: int
    values: int
    most: float  # the share of the most frequent value
    dead_channels: int  # constant channels, if each has `OF_A_CHANNEL` outputs

    @classmethod
    def of(cls, rows: Array) -> Self:
        """Measure `rows`, by [output pixel, channel]. Values are compared by their bits, so that NaN is one value."""
        bits = np.ascontiguousarray(rows).view(f"u{rows.dtype.itemsize}")
        if rows.dtype.itemsize <= 2:
            counts = np.bincount(bits.ravel(), minlength=1)
            counts = counts[counts > 0]
        else:
            _, counts = np.unique(bits, return_counts=True)
        constant = bits.max(axis=0) == bits.min(axis=0)
        dead = int(constant.sum()) if len(rows) >= OF_A_CHANNEL else 0
        return cls(rows.size, len(counts), float(counts.max()) / rows.size, dead)

    @property
    def has_few_values(self) -> bool:
        return self.outputs >= MANY_OUTPUTS and self.values < LEAST_VALUES

    def lacks(self, most: float = MOST_OF_ONE_VALUE) -> str:
        """Return the broken rule, or an empty text."""
        if self.has_few_values:
            return f"{self.values} values in {self.outputs} outputs, fewer than {LEAST_VALUES}"
        if self.outputs >= SOME_OUTPUTS and self.most > most:
            return f"one value in {self.most:.0%} of {self.outputs} outputs, more than {most:.0%}"
        if self.dead_channels:
            return f"{self.dead_channels} channels of one value"
        return ""


# A moved integer keeps this fraction of its distance from the end, as a right shift.
EIGHTH = 3
MOST_MOVED = 0.94
# With a zero point this close to an end of its range, (nearly) all differences have one sign.
NEAR_THE_END = 32
# Fractions of zero points near the middle of the range, and at one of its ends; the others are uniform.
IN_THE_MIDDLE, AT_AN_END = 0.3, 0.2
COARSE = 8


def uniform(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    low, high = ELEMENT_TYPES[dtype].range
    return rng.integers(low, high, shape, dtype=dtype, endpoint=True)


def zero_points(dtype: str, shape: tuple[int, ...], rng: np.random.Generator, inside: bool) -> Array:
    """Draw zero points. `inside`: none near an end of the range."""
    low, high = ELEMENT_TYPES[dtype].range
    if inside:
        return rng.integers(low + NEAR_THE_END, high - NEAR_THE_END, shape, dtype=dtype, endpoint=True)
    kind, middle = rng.random(shape), (low + high + 1) // 2
    near = rng.integers(middle - 9, middle + 9, shape, dtype=dtype, endpoint=True)
    end = np.where(rng.random(shape) < 0.5, low, high)
    anywhere = uniform(dtype, shape, rng)
    chosen = np.where(kind < IN_THE_MIDDLE, near, np.where(kind < IN_THE_MIDDLE + AT_AN_END, end, anywhere))
    return chosen.astype(dtype)


def is_one_sided(dtype: str, zero_point: Any) -> bool:
    """True where (nearly) all differences with some zero point have one sign."""
    low, high = ELEMENT_TYPES[dtype].range
    zero = np.asarray(zero_point, np.int64)
    return bool((np.minimum(zero - low, high - zero) < NEAR_THE_END).any())


def sign_of_differences(dtype: str, zero_point: Any) -> int:
    """Return the sign of most differences with the zero point."""
    low, high = ELEMENT_TYPES[dtype].range
    return 1 if np.mean(zero_point) < (low + high) / 2 else -1


def leaning(values: Array, mean: float, rng: np.random.Generator) -> Array:
    """Move some of these uniform integers towards one end, for a mean as close to `mean` as possible."""
    low, high = ELEMENT_TYPES[values.dtype.name].range
    to_low = mean < (low + high) / 2
    distance = mean - low if to_low else high - mean
    half, kept = (high - low) / 2, 2.0**-EIGHTH
    share = min(max((half - distance) / (half * (1 - kept)), 0.0), MOST_MOVED)
    drawn = rng.integers(0, 256, values.shape, dtype=np.uint8)
    return np.where(drawn < round(share * 256), _moved(values, to_low), values)


def dimmed(values: Array, zero_point: int, axis: int, rng: np.random.Generator) -> Array:
    """Move each pixel towards the end that is nearer to the zero point, by a power of two of its own, so that sums
    differ between pixels. With independent products they would nearly average out."""
    low, high = ELEMENT_TYPES[values.dtype.name].range
    shape = tuple(1 if at == axis else size for at, size in enumerate(values.shape))
    shift = rng.integers(0, 4, shape, dtype=np.uint8)
    distance = _distance(values, zero_point - low < high - zero_point)
    return _at_distance(distance >> shift, values.dtype, zero_point - low < high - zero_point)


def _distance(values: Array, from_low: bool) -> Array:
    unsigned = values.view(bits_of(values.dtype)) ^ _sign_of(values.dtype)
    return unsigned if from_low else ~unsigned


def _at_distance(distance: Array, dtype: Any, from_low: bool) -> Array:
    unsigned = distance if from_low else ~distance
    return (unsigned ^ _sign_of(dtype)).view(dtype)


def bits_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned type of the same size."""
    return np.dtype(f"u{dtype.itemsize}")


def _sign_of(dtype: np.dtype[Any]) -> Array:
    """Return the sign bit of an integer type: flipping it makes the order of the unsigned values that of the
    integers."""
    sign = 1 << (8 * dtype.itemsize - 1) if ELEMENT_TYPES[dtype.name].is_signed else 0
    return np.asarray(sign, bits_of(dtype))


def _moved(values: Array, to_low: bool) -> Array:
    return _at_distance(_distance(values, to_low) >> EIGHTH, values.dtype, to_low)


def shifted(w: Array, means: Array, change: Array, rng: np.random.Generator) -> Array:
    """Move elements of filters, by [output channel, element], until the mean sum of each channel has changed by
    `change`. `means` are the means of the factors of the elements, in the same order."""
    up = (np.sign(means) * np.sign(change)[:, np.newaxis]) > 0
    moved = np.where(up, _moved(w, to_low=False), _moved(w, to_low=True))
    gain = np.abs(moved.astype(np.int32) - w) * np.abs(means)
    order = rng.permutation(w.shape[1])
    gain = gain[:, order]
    # Up to and including the element that completes the change.
    taken = np.empty(w.shape, bool)
    taken[:, order] = np.cumsum(gain, axis=1) - gain < np.abs(change)[:, np.newaxis]
    return np.where(taken, moved, w)


def alive(w: Array, zero_points: Array) -> Array:
    """Return filters, by [output channel, element], each with at least one element that is not close to its zero
    point."""
    low, high = ELEMENT_TYPES[w.dtype.name].range
    zero = np.broadcast_to(np.asarray(zero_points, np.int32), (len(w),))
    dead = np.abs(w.astype(np.int32) - zero[:, np.newaxis]).max(axis=1) < COARSE
    w[dead, 0] = np.where(zero[dead] - low < high - zero[dead], high, low)
    return w


def coarse(values: Array, zero_point: Any) -> Array:
    """Move each value towards the zero point by less than `COARSE`, to a difference that is a multiple of `COARSE`."""
    zero = np.asarray(zero_point, np.int32)
    difference = values.astype(np.int32) - zero
    kept: Array = zero + np.sign(difference) * (np.abs(difference) // COARSE * COARSE)
    return kept.astype(values.dtype)
