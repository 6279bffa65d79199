"""Random problems through the families that serve some layers alone on the first GPU, bit for bit against the oracle.

Under compute-sanitizer, which sees what the results need not show, a few launches suffice:

    compute-sanitizer --tool racecheck python -m pytest tests/templates/test_special_random_gpu.py -k sanitizer
"""

from __future__ import annotations

import pytest
from exactness import check
from random_special import SHAPES, special_plan, special_problems

from qconv.device import Device

COUNT, CHUNK, SEED = 300, 10, 3

pytestmark = pytest.mark.gpu


def check_some(family: str, gpu: Device, first: int, count: int) -> None:
    if family in ("direct", "stem") and not any(i.name == "mma_m16n8k32" for i in gpu.target.instructions):
        pytest.skip(f"{gpu.target.name} has no mma.m16n8k32")
    for index, problem in list(enumerate(special_problems(family, SEED, COUNT)))[first : first + count]:
        check(special_plan(family, problem, gpu.target, index), gpu, seed=index)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
@pytest.mark.parametrize("family", SHAPES)
def test_a_random_config(family: str, first: int, gpu: Device) -> None:
    check_some(family, gpu, first, CHUNK)


@pytest.mark.parametrize("family", SHAPES)
def test_a_few_for_the_sanitizer(family: str, gpu: Device) -> None:
    check_some(family, gpu, 0, 4)
