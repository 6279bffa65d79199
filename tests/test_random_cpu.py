"""Random problems on the CPU device, bit for bit against the oracle. It runs the same source as the GPUs."""

from __future__ import annotations

import pytest
from exactness import check, random_plan
from random_problems import problems

from qconv import generator
from qconv.device import open_device

FAST = problems(seed=1, count=60)
LONG = problems(seed=2, count=300)


@pytest.mark.parametrize("first", range(0, len(FAST), 5))
def test_a_random_config(first: int) -> None:
    device = open_device("cpu")
    for index, problem in enumerate(FAST[first : first + 5], first):
        check(random_plan(problem, device, index), device, seed=index)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(LONG), 10))
def test_the_default_and_a_random_config(first: int) -> None:
    device = open_device("cpu")
    for index, problem in enumerate(LONG[first : first + 10], first):
        check(generator.default(problem, device.target), device, seed=index)
        check(random_plan(problem, device, index), device, seed=index)
