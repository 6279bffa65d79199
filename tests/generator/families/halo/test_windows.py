"""The convolution that `halo` computes in place of the problem has the same sums: merged columns add zeros alone."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from qconv import Conv2d
from qconv.generator.families.halo.windows import MergedColumns, Windows, reshaped
from qconv.ops import registry
from qconv.ops.convolution import accumulate

STRIDED = Conv2d(1, 20, 20, 16, 64, 3, 3, stride=2, pad=1)


def reshaped_filters(together: MergedColumns, w: np.ndarray) -> np.ndarray:
    """Return the filters with columns of zeros before and behind, several of which are a tap."""
    made, problem = together.reshaped, together.problem
    before = made.pad[1] * together.columns - problem.pad[1]
    behind = made.s * together.columns - before - problem.s
    return np.pad(w, ((0, 0), (0, 0), (before, behind), (0, 0))).reshape(made.w_shape)


def problems(count: int) -> list[Conv2d]:
    rng, found = random.Random(1), []
    while len(found) < count:
        stride, r, s = rng.choice((2, 2, 3, 4)), rng.randint(1, 4), rng.randint(1, 7)
        pad = tuple(rng.randint(0, 4) for _ in range(4))
        width = stride * rng.randint(2, 6)
        if width + pad[1] + pad[3] < s:
            continue
        c, k = rng.choice((5, 8, 16, 24, 32, 48)), rng.choice((3, 64, 100))
        problem = Conv2d(2, 9, width, c, k, r, s, stride=(rng.randint(1, 3), stride), pad=pad)
        if MergedColumns.of(problem) is not None:
            found.append(problem)
    return found


def test_sums_are_the_same() -> None:
    for problem in problems(60):
        together, drawn = MergedColumns.of(problem), registry.draw(problem, 1)
        assert together is not None
        (x, w), parameters = drawn.arrays, problem.checked(drawn.parameters)
        made = reshaped(problem)
        assert made == together.reshaped
        assert (made.y_shape, made.stride[1]) == (problem.y_shape, 1)
        assert min(made.pad) >= 0
        assert 0 <= made.pad[1] * together.columns - problem.pad[1] < together.columns
        of_reshaped = accumulate(made, x.reshape(made.x_shape), reshaped_filters(together, w), parameters)
        np.testing.assert_array_equal(of_reshaped, accumulate(problem, x, w, parameters), err_msg=str(problem))


@pytest.mark.parametrize(
    "change",
    [
        {"stride": (2, 1)},
        {"w": 21},  # the last column would be half a pixel
        {"dilation": (1, 2), "pad": (1, 2, 1, 2)},
        {"groups": 2},
        {"layout": "nchw"},
        {"c": 80},  # more than a row of shared memory has
        {"s": 2, "c": 32, "pad": (0, 1, 0, 0)},  # two taps, half of whose columns are zeros
    ],
)
def test_columns_that_stay_apart(change: dict[str, object]) -> None:
    assert MergedColumns.of(STRIDED) is not None
    problem = replace(STRIDED, **change)  # type: ignore[arg-type]
    assert MergedColumns.of(problem) is None
    assert reshaped(problem) == problem


def test_more_products_are_worth_it_for_few_outputs() -> None:
    """With 64 channels two taps of four steps replace three of two, with 48 three of three."""
    more, as_many = replace(STRIDED, c=64), replace(STRIDED, c=48)
    for k, expected in ((64, 2), (65, 1)):
        assert reshaped(replace(more, k=k)).c == expected * 64
        assert reshaped(replace(as_many, k=k)).c == 96
        assert reshaped(replace(STRIDED, c=24, k=k)).c == 48  # without lanes that bring pixels


def test_nothing_is_passed_over_within_a_row() -> None:
    """Gathered channels become multiples of 16."""
    problem = replace(STRIDED, c=24)
    as_they_are, together = Windows.of(problem, 8), Windows.of(reshaped(problem), 8)
    assert (as_they_are.count, as_they_are.skips) == (2, True)
    assert (together.count, together.skips, together.pixel % 16) == (1, False, 0)


def test_what_an_output_adds_up_may_not_grow_beyond_a_sum() -> None:
    """With a column of zeros this filter would exceed the limit; the family refuses it anyway for its many products."""
    large = Conv2d(1, 4, 8192, 16, 8, 1, 8191, stride=(1, 2))
    with pytest.raises(ValueError, match="sum"):
        replace(large, s=8192)
    assert reshaped(large) == large


def test_merged_columns_take_no_more_products_than_a_tile_may_have() -> None:
    tall = Conv2d(1, 40, 20, 64, 64, 21, 3, stride=(1, 2), pad=(10, 1, 10, 1))
    assert reshaped(replace(tall, r=20)).c == 128
    assert reshaped(tall) == tall
