"""The problem as a kernel of `halo` counts it: the same products; columns treated as channels only add zeros."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from qconv import Conv2d
from qconv.generator.families.halo.config import ColumnsTogether, as_seen
from qconv.generator.families.halo.windows import Windows
from qconv.ops import registry
from qconv.ops.convolution import accumulate

STRIDED = Conv2d(1, 20, 20, 16, 64, 3, 3, stride=2, pad=1)


def filters_seen(together: ColumnsTogether, w: np.ndarray) -> np.ndarray:
    """Return the filters with columns of zeros before and after, with several columns per tap."""
    seen, problem = together.seen, together.problem
    before = seen.pad[1] * together.columns - problem.pad[1]
    behind = seen.s * together.columns - before - problem.s
    return np.pad(w, ((0, 0), (0, 0), (before, behind), (0, 0))).reshape(seen.w_shape)


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
        if ColumnsTogether.of(problem) is not None:
            found.append(problem)
    return found


def test_sums_are_the_same() -> None:
    for problem in problems(60):
        together, drawn = ColumnsTogether.of(problem), registry.draw(problem, 1)
        assert together is not None
        (x, w), parameters = drawn.arrays, problem.checked(drawn.parameters)
        seen = as_seen(problem)
        assert seen == together.seen
        assert (seen.y_shape, seen.stride[1]) == (problem.y_shape, 1)
        assert min(seen.pad) >= 0
        assert 0 <= seen.pad[1] * together.columns - problem.pad[1] < together.columns
        of_seen = accumulate(seen, x.reshape(seen.x_shape), filters_seen(together, w), parameters)
        np.testing.assert_array_equal(of_seen, accumulate(problem, x, w, parameters), err_msg=str(problem))


@pytest.mark.parametrize(
    "change",
    [
        {"stride": (2, 1)},
        {"w": 21},  # the last column would be half a pixel
        {"dilation": (1, 2)},
        {"groups": 2},
        {"layout": "nchw"},
        {"c": 80},  # more than a row of shared memory has
        {"s": 2, "c": 32, "pad": (0, 1, 0, 0)},  # two taps, half of whose columns are zeros
    ],
)
def test_columns_that_stay_apart(change: dict[str, object]) -> None:
    assert ColumnsTogether.of(STRIDED) is not None
    problem = replace(STRIDED, **change)  # type: ignore[arg-type]
    assert ColumnsTogether.of(problem) is None
    assert as_seen(problem) == problem


def test_more_products_are_worth_it_for_few_outputs() -> None:
    """With 64 channels two taps of four steps replace three of two, with 48 three of three."""
    more, as_many = replace(STRIDED, c=64), replace(STRIDED, c=48)
    for k, expected in ((64, 2), (65, 1)):
        assert as_seen(replace(more, k=k)).c == expected * 64
        assert as_seen(replace(as_many, k=k)).c == 96
        assert as_seen(replace(STRIDED, c=24, k=k)).c == 48  # without the gathering lanes


def test_nothing_is_passed_over_within_a_row() -> None:
    """Gathered channels become multiples of 16."""
    problem = replace(STRIDED, c=24)
    as_they_are, together = Windows.of(problem, 8), Windows.of(as_seen(problem), 8)
    assert (as_they_are.count, as_they_are.skips) == (2, True)
    assert (together.count, together.skips, together.channels % 16) == (1, False, 0)


def test_what_an_output_adds_up_may_not_grow_beyond_a_sum() -> None:
    """With a column of zeros this filter would exceed the limit; the family refuses it anyway for its many products."""
    large = Conv2d(1, 4, 8192, 16, 8, 1, 8191, stride=(1, 2))
    with pytest.raises(ValueError, match="sum"):
        replace(large, s=8192)
    assert as_seen(large) == large
