"""Exact sums of a few outputs of a convolution, computed from only the input that their windows read. Samples are
calibrated on them.

Rows are pixels, flattened over images, rows and columns, each with its channels, whatever the layout of the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.problem.convolution import Conv2d

Array = NDArray[Any]

# Limits per convolution on gathered numbers, products and sampled outputs. Together they take a few milliseconds.
MOST_GATHERED = 2**18
MOST_PRODUCTS = 2**23
MOST_OUTPUTS = 2**15
# With fewer outputs or pixels, quantiles and shares of single values say little.
LEAST_OUTPUTS = 1024
LEAST_PIXELS = 16
EXACT_IN_FLOAT32 = 2**24


@dataclass(frozen=True)
class Windows:
    """Some output pixels of a convolution, the input pixels that they read (`reads`), and by [output pixel, tap] the
    index in `reads` of each tap's pixel (`taps`), or `len(reads)` for padding."""

    problem: Conv2d
    pixels: Array
    reads: Array
    taps: Array

    @property
    def padding_only(self) -> Array:
        """True for each output pixel whose window lies in the padding."""
        only: Array = (self.taps == len(self.reads)).all(axis=1)
        return only

    @property
    def complete(self) -> bool:
        return len(self.pixels) == self.problem.pixels


def windows(layers: list[Conv2d], rng: np.random.Generator) -> list[Windows]:
    """Choose the pixels to sample in each layer: all of a small layer, else random ones and those that the next layer
    reads."""
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
    """Return the flat input pixel by [output pixel, tap], or -1 for padding."""
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
    """Return some pixels of an array of activations, by [pixel, channel]."""
    channels_last = array if layout == "nhwc" else array.transpose(0, 2, 3, 1)
    taken: Array = channels_last[np.unravel_index(pixels, channels_last.shape[:3])]
    return taken


def gathered(seen: Windows, rows: Array, x_zero_point: Any) -> Array:
    """Return x - x_zero_point by [group, output pixel, tap and input channel of the group]. `rows` are the pixels in
    `seen.reads`."""
    problem = seen.problem
    pad = -float(x_zero_point) if problem.quantization.mode.padding == "raw_zero" else 0.0
    real = np.concatenate(
        (rows.astype(np.float32) - np.float32(x_zero_point), np.full((1, problem.c), pad, np.float32))
    )
    grouped = real.reshape(len(real), problem.groups, problem.c_group).transpose(1, 0, 2)
    return grouped[:, seen.taps].reshape(problem.groups, len(seen.taps), -1)


def sums(seen: Windows, x: Array, w: Array) -> Array:
    """Return int64 sums by [output pixel, output channel]. `x` is the result of `gathered`; `w` holds the filters minus
    their zero points, by [output channel, tap and input channel of its group]."""
    problem = seen.problem
    exact = np.float32 if problem.reduction * problem.quantization.largest_product < EXACT_IN_FLOAT32 else np.float64
    return _sums(seen, x, w, exact).astype(np.int64)


def exact_sums(seen: Windows, x: Array, w: Array) -> Array:
    """Return what `sums` does, as float64, of factors whose sums are exact in it."""
    return _sums(seen, x, w, np.float64)


def _sums(seen: Windows, x: Array, w: Array, dtype: Any) -> Array:
    problem = seen.problem
    grouped = w.reshape(problem.groups, problem.k_group, -1).transpose(0, 2, 1).astype(dtype)
    products: Array = np.matmul(x.astype(dtype, copy=False), grouped)
    return products.transpose(1, 0, 2).reshape(len(seen.pixels), problem.k)
