"""Random problems on the first GPU, bit for bit against the oracle."""

from __future__ import annotations

import pytest
from exactness import check, random_plan
from random_problems import problems

from qconv import generator
from qconv.device import Device

PROBLEMS = problems(seed=2, count=300)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("first", range(0, len(PROBLEMS), 10))
def test_the_default_and_a_random_config(first: int, gpu: Device) -> None:
    for index, problem in enumerate(PROBLEMS[first : first + 10], first):
        check(generator.default(problem, gpu.target), gpu, seed=index)
        check(random_plan(problem, gpu, index), gpu, seed=index)
