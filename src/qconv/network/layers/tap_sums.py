"""Sums of a convolution's weights over the taps that lie inside the image.

A kernel sums x * w, with zeros in the padding. The sum of (x - zero) * w over the same taps is that minus zero times
these sums. They differ between pixels only where taps lie in the padding, so that they are stored once for each set of
rows and each set of columns of the filter that lie inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qconv.network.graph.reading import Array
from qconv.problem.convolution import Conv2d


@dataclass(frozen=True, eq=False)
class TapSums:
    """`sums` are int32, by the set of rows, the set of columns, and the output. `rows` and `columns` are the set of
    each row and each column of the output."""

    sums: Array
    rows: Array
    columns: Array

    @classmethod
    def of(cls, problem: Conv2d, weights: Array, zero_point: Array) -> TapSums:
        """Return the sums of weights, which are KCRS, minus their zero points: one, or one for each output."""
        wide = weights.astype(np.int64) - np.reshape(zero_point, (-1, 1, 1, 1)).astype(np.int64)
        (top, left, _, _), (down, across), (high, wide_step) = problem.pad, problem.stride, problem.dilation
        rows, row_of = _sets(problem.oh, down, top, problem.r, high, problem.h)
        columns, column_of = _sets(problem.ow, across, left, problem.s, wide_step, problem.w)
        sums = np.einsum("krs,ar,bs->abk", wide.sum(axis=1), rows, columns)
        return cls(sums.astype(np.int32), row_of, column_of)


def _sets(outputs: int, stride: int, pad: int, taps: int, dilation: int, size: int) -> tuple[Array, Array]:
    """Return the different sets of taps of one axis that lie inside the image, as rows of 0 and 1, and the number of
    the set of each output."""
    places = np.arange(outputs)[:, np.newaxis] * stride - pad + np.arange(taps) * dilation
    found, numbers = np.unique((places >= 0) & (places < size), axis=0, return_inverse=True)
    return found.astype(np.int64), numbers.reshape(-1).astype(np.int32)
