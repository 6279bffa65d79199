"""The sums of a few outputs, exact, from no more of the input than their windows read: what a sample is calibrated on.

Rows are pixels, flat over images, rows and columns, each with its channels, whatever the layout of the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.problem.convolution import Conv2d

Array = NDArray[Any]

# Limits for one convolution: numbers gathered, products, and outputs looked at. They take a few milliseconds.
MOST_GATHERED = 2**18
MOST_PRODUCTS = 2**23
MOST_OUTPUTS = 2**15
# Below these, quantiles and the shares of single values say little.
LEAST_OUTPUTS = 1024
LEAST_PIXELS = 16
EXACT_IN_FLOAT32 = 2**24


@dataclass(frozen=True)
class Windows:
    """Some output pixels of a convolution, the input pixels that they read, and by [output pixel, tap] the row of each
    among those, or one past the last for padding."""

    problem: Conv2d
    pixels: Array
    reads: Array
    taps: Array

    @property
    def padding_only(self) -> Array:
        """By output pixel."""
        only: Array = (self.taps == len(self.reads)).all(axis=1)
        return only

    @property
    def complete(self) -> bool:
        return len(self.pixels) == self.problem.pixels


def windows(layers: list[Conv2d], rng: np.random.Generator) -> list[Windows]:
    """All pixels of what is small. Else some at random, and of the layers before the last those that the next reads."""
    wanted: Array | None = None
    found: list[Windows] = []
    for problem in reversed(layers):
        few = _affordable(problem)
        if few >= problem.pixels:
            pixels = np.arange(problem.pixels)
        else:
            pixels = np.unique(rng.choice(problem.pixels, few, replace=False, shuffle=False))
            pixels = pixels if wanted is None else np.union1d(pixels, wanted)
        sources = _sources(problem, pixels)
        reads = np.unique(sources[sources >= 0])
        taps = np.where(sources >= 0, np.searchsorted(reads, sources), len(reads))
        found.insert(0, Windows(problem, pixels, reads, taps))
        wanted = reads
    return found


def _affordable(problem: Conv2d) -> int:
    gathered = problem.r * problem.s * problem.c
    most = min(MOST_GATHERED // gathered, MOST_PRODUCTS // (problem.k * problem.reduction), MOST_OUTPUTS // problem.k)
    return max(most, LEAST_OUTPUTS // problem.k, LEAST_PIXELS)


def _sources(problem: Conv2d, pixels: Array) -> Array:
    """By [output pixel, tap] the flat input pixel, or -1 for padding."""
    image, row, column = np.unravel_index(pixels, (problem.n, problem.oh, problem.ow))
    top, left, _, _ = problem.pad
    (step_h, step_w), (gap_h, gap_w) = problem.stride, problem.dilation
    rows = row[:, np.newaxis] * step_h - top + np.arange(problem.r) * gap_h
    columns = column[:, np.newaxis] * step_w - left + np.arange(problem.s) * gap_w
    inside = ((rows >= 0) & (rows < problem.h))[:, :, np.newaxis]
    inside = inside & ((columns >= 0) & (columns < problem.w))[:, np.newaxis, :]
    flat = (image[:, np.newaxis, np.newaxis] * problem.h + rows[:, :, np.newaxis]) * problem.w
    return np.where(inside, flat + columns[:, np.newaxis, :], -1).reshape(len(pixels), -1)


def rows_of(array: Array, layout: str, pixels: Array) -> Array:
    """[pixel, channel] of an array of activations."""
    channels_last = array if layout == "nhwc" else array.transpose(0, 2, 3, 1)
    taken: Array = channels_last[np.unravel_index(pixels, channels_last.shape[:3])]
    return taken


def gathered(seen: Windows, rows: Array, x_zero_point: Any) -> Array:
    """x - x_zero_point by [group, output pixel, tap and input channel of the group]: rows are those that it reads."""
    problem = seen.problem
    pad = -float(x_zero_point) if problem.quantization.mode.padding == "raw_zero" else 0.0
    real = np.concatenate(
        (rows.astype(np.float32) - np.float32(x_zero_point), np.full((1, problem.c), pad, np.float32))
    )
    grouped = real.reshape(len(real), problem.groups, problem.c_group).transpose(1, 0, 2)
    return grouped[:, seen.taps].reshape(problem.groups, len(seen.taps), -1)


def sums(seen: Windows, x: Array, w: Array) -> Array:
    """int64 by [output pixel, output channel]. `x` is what `gathered` gave; `w` holds the filters, less their zero
    points, by [output channel, tap and input channel of its group]."""
    problem = seen.problem
    exact = np.float32 if problem.reduction * problem.quantization.largest_product < EXACT_IN_FLOAT32 else np.float64
    grouped = w.reshape(problem.groups, problem.k_group, -1).transpose(0, 2, 1).astype(exact)
    products: Array = np.matmul(x.astype(exact, copy=False), grouped)
    return products.transpose(1, 0, 2).reshape(len(seen.pixels), problem.k).astype(np.int64)
