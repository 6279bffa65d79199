"""Pools as problems: keys, the number of windows, refusals, the random data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_tensor_ops import global_pools, pools

from qconv import parse
from qconv.ops import registry
from qconv.sampling.operands import Variety
from qconv.tensor_ops import AveragePool, GlobalAveragePool, MaxPool


def test_the_key_says_sizes_and_types_and_what_differs() -> None:
    assert str(MaxPool(1, 9, 8, 4, 3, 2)) == "max_pool:n=1:h=9:w=8:c=4:r=3:s=2:x_type=int8"
    made = AveragePool(1, 9, 8, 4, 3, 2, stride=2, pad=1, count_include_pad=True)
    assert str(made) == (
        "average_pool:n=1:h=9:w=8:c=4:r=3:s=2:stride=2,2:pad=1,1,1,1:x_type=int8:out_type=int8:count_include_pad"
    )
    whole = GlobalAveragePool(2, 49, 8, "uint8")
    assert str(whole) == "global_average_pool:n=2:pixels=49:c=8:x_type=uint8:out_type=int8"
    for problem in (made, whole, *pools(4, 40)):
        assert parse(str(problem)) == problem


@pytest.mark.parametrize(
    ("h", "r", "stride", "pad", "ceil_mode", "oh"),
    [
        (112, 3, 2, (1, 0, 1, 0), False, 56),
        (9, 3, 2, (0, 0, 0, 0), False, 4),
        (9, 3, 2, (0, 0, 0, 0), True, 4),
        (10, 3, 2, (0, 0, 0, 0), True, 5),
        (10, 3, 2, (0, 0, 0, 0), False, 4),
        # The fifth window would begin in the padding after the input.
        (8, 2, 2, (1, 0, 1, 0), False, 5),
        (7, 2, 2, (1, 0, 1, 0), True, 4),
        (8, 2, 3, (1, 0, 1, 0), True, 3),
        (7, 2, 3, (1, 0, 1, 0), True, 3),
        (5, 2, 3, (1, 0, 1, 0), True, 2),
    ],
)
def test_how_many_windows_there_are(
    h: int, r: int, stride: int, pad: tuple[int, ...], ceil_mode: bool, oh: int
) -> None:
    assert MaxPool(1, h, 4, 2, r, 1, stride=stride, pad=pad, ceil_mode=ceil_mode).oh == oh


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MaxPool(1, 9, 9, 4, 3, 3, pad=3), "a pad must be smaller than the window"),
        (lambda: MaxPool(1, 9, 9, 4, 3, 3, pad=(1, 2)), "pad=.* must be one integer or 4 of them"),
        (lambda: MaxPool(1, 9, 9, 4, 3, 3, stride=0), "stride=0 must be between 1"),
        (lambda: MaxPool(1, 9, 9, 4, 3, 3, dilation=5), "the window spans 11 along h"),
        (lambda: MaxPool(1, 9, 9, 4, 3, 10), "the window spans 10 along w"),
        (lambda: MaxPool(1, 9, 9, 4, 3, 3, x_type="int16"), "x_type='int16' is not one of"),
        (lambda: MaxPool(1, 9, 9, 4, 3, 3, ceil_mode=1), "ceil_mode=1 must be True or False"),
        (lambda: MaxPool(2**12, 2**10, 2**10, 1, 1, 1), "split n"),
        (lambda: AveragePool(1, 7, 7, 4, 7, 7), "use that"),
        (lambda: GlobalAveragePool(1, 2**24, 1), "pixels=16777216 must be between 1"),
        (lambda: parse("max_pool:n=1:h=3:w=3:c=1:r=1"), "has no s"),
        (lambda: parse("average_pool:n=1:h=3:w=3:c=1:r=1:s=1:dilation=2"), "unknown field 'dilation'"),
        (lambda: GlobalAveragePool(1, 4, 1).checked({"x_scale": 2000.0}), "below 256"),
        (lambda: AveragePool(1, 4, 4, 1, 2, 2).checked({"x_scale": 2.0**100, "y_scale": 2.0**100}), "infinite"),
        (lambda: AveragePool(1, 4, 4, 1, 2, 2).checked({"x_scale": 2.0**21}), "x_scale / y_scale"),
        (lambda: AveragePool(1, 4, 4, 1, 2, 2).checked({"x_zero_point": -129}), "x_zero_point=-129 must be"),
    ],
)
def test_what_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_outputs_vary() -> None:
    for index, problem in enumerate((*pools(3, 60), *global_pools(3, 20))):
        (y,) = registry.compute(problem, registry.draw(problem, index))
        assert not Variety.of(y.reshape(-1, 1)).lacks(), f"sample {index} of {problem}"


def test_a_window_that_is_padding_alone_gives_the_least_value() -> None:
    problem = MaxPool(1, 1, 3, 1, 2, 1, pad=(1, 0, 1, 0), dilation=(2, 1))
    (y,) = registry.compute(problem, registry.Sample((np.full((1, 1, 3, 1), 5, np.int8),)))
    assert (y == -128).all()
