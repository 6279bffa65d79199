"""ArgMax as a problem: its key, its refusals, its data and its oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.op import Sample
from qconv.ops import registry
from qconv.ops.registry import parse
from qconv.tensor_ops import ArgMax


def test_its_key() -> None:
    problem = ArgMax(2, 5, 7, last=True, x_type="uint8")
    assert str(problem) == "argmax:outer=2:length=5:inner=7:last:x_type=uint8"
    assert parse(str(problem)) == problem
    assert str(ArgMax(3, 9)) == "argmax:outer=3:length=9:inner=1:x_type=int8"
    assert problem.io_bytes == 2 * 5 * 7 + 8 * 2 * 7


def test_of_an_array_and_an_axis() -> None:
    for axis, sizes in ((0, (1, 2, 60)), (1, (2, 3, 20)), (2, (6, 4, 5)), (-1, (24, 5, 1)), (-4, (1, 2, 60))):
        problem = ArgMax.of((2, 3, 4, 5), axis)
        assert (problem.outer, problem.length, problem.inner) == sizes


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ArgMax(0, 5), "outer=0 must be between 1"),
        (lambda: ArgMax(1, 0), "length=0 must be between 1"),
        (lambda: ArgMax(2**20, 2**12), "x has 4294967296 elements"),
        (lambda: ArgMax(1, 5, x_type="int16"), "x_type='int16' is not one of int8, uint8"),
        (lambda: ArgMax(1, 5, last=1), "last=1 must be True or False"),  # type: ignore[arg-type]
        (lambda: ArgMax.of((2, 3), 2), "axis=2 must be between -2 and 1"),
    ],
)
def test_what_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_the_first_or_the_last_of_equal_elements() -> None:
    x = np.asarray([[3, 7, 7, -5, 7], [-128, -128, -128, -128, -128]], np.int8)[:, :, np.newaxis]
    assert registry.compute(ArgMax(2, 5), Sample((x,)))[0].ravel().tolist() == [1, 0]
    (last,) = registry.compute(ArgMax(2, 5, last=True), Sample((x,)))
    assert last.ravel().tolist() == [4, 4]
    assert last.dtype == np.int64


def test_its_data_has_ties_and_indices_of_every_part_of_an_axis() -> None:
    for x_type in ("int8", "uint8"):
        problem = ArgMax(50, 40, 3, x_type=x_type)
        drawn = registry.draw(problem, 3)
        (first,), (last,) = (registry.compute(ArgMax(50, 40, 3, last, x_type), drawn) for last in (False, True))
        assert 0.2 < (first != last).mean() < 0.6
        assert len(np.unique(first)) > 30
        assert len(np.unique(drawn.arrays[0])) == 256
