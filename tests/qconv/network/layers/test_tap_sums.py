"""Sums of weights over the taps inside the image, beside loops over pixels and taps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.arithmetic.quantization import Quantization
from qconv.network.layers.tap_sums import TapSums
from qconv.problem.convolution import Conv2d

RNG = np.random.default_rng(51)


def drawn() -> Conv2d:
    """Return a random problem, whose pads may be wider than its filter."""

    def some(count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(int(each) for each in RNG.integers(low, high, count))

    while True:
        r, s, k, groups, h, w = (*some(2, 1, 5), *some(1, 1, 4), *some(1, 1, 3), *some(2, 1, 9))
        options: dict[str, Any] = {"stride": some(2, 1, 4), "dilation": some(2, 1, 4), "pad": some(4, 0, 4)}
        try:
            return Conv2d(1, h, w, 3 * groups, k * groups, r, s, groups=groups, **options, quantization=Quantization())
        except ValueError:  # the filter is larger than the image
            continue


def by_loops(problem: Conv2d, weights: Any) -> Any:
    total = np.zeros((problem.k, problem.oh, problem.ow), np.int64)
    for y, x, r, s in np.ndindex(problem.oh, problem.ow, problem.r, problem.s):
        row = y * problem.stride[0] - problem.pad[0] + r * problem.dilation[0]
        column = x * problem.stride[1] - problem.pad[1] + s * problem.dilation[1]
        if 0 <= row < problem.h and 0 <= column < problem.w:
            total[:, y, x] += weights[:, :, r, s].sum(1)
    return total


@pytest.mark.parametrize("turn", range(60))
def test_every_pixel_has_the_sum_over_the_taps_inside(turn: int) -> None:
    problem = drawn()
    w_shape = (problem.k, problem.c_group, problem.r, problem.s)
    weights, zero = RNG.integers(-128, 128, w_shape).astype(np.int8), RNG.integers(-128, 128, problem.k)
    zero = zero[:1] if turn % 2 else zero
    taps = TapSums.of(problem, weights, zero)
    made = taps.sums[taps.rows][:, taps.columns].transpose(2, 0, 1)
    np.testing.assert_array_equal(made, by_loops(problem, weights - zero.reshape(-1, 1, 1, 1)))
    assert taps.sums.dtype == np.int32


def test_only_borders_have_sums_of_their_own() -> None:
    """A filter of 3x3 over a large image has 3 sets of rows, and 3 of columns; without pads it has one of each."""
    weights = np.ones((4, 2, 3, 3), np.int8)
    padded = TapSums.of(Conv2d(1, 200, 300, 2, 4, 3, 3, pad=1), weights, np.zeros(1))
    assert padded.sums.shape == (3, 3, 4)
    assert TapSums.of(Conv2d(1, 200, 300, 2, 4, 3, 3), weights, np.zeros(1)).sums.shape == (1, 1, 4)


def test_sums_wrap_around_as_the_kernels_do() -> None:
    problem = Conv2d(1, 1, 1, 2**16, 1, 1, 1, quantization=Quantization(x_type="int8"))
    weights = np.full((1, 2**16, 1, 1), -128, np.int8)
    taps = TapSums.of(problem, weights, np.array([127]))
    assert taps.sums.item() == -255 * 2**16
