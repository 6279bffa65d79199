"""The kernels of attention on a GPU: random configs of random problems, bit for bit."""

from __future__ import annotations

import pytest
from kernel_checks import check_random_problems
from random_attentions import Sizes, attentions, of

from qconv.device import Device

PROBLEMS = {
    "random": attentions(5, 60),
    "of networks": [
        of(Sizes((2, 3), 197, 197, 64, 64), beside=True),
        of(Sizes((64, 3), 49, 49, 32, 32), beside=True, mask=True, by="table"),
        of(Sizes((8, 4), 256, 256, 36, 36), "int8", by="table", out="uint8"),
    ],
}


@pytest.mark.gpu
@pytest.mark.parametrize("kind", PROBLEMS)
def test_random_problems(kind: str, gpu: Device) -> None:
    check_random_problems(PROBLEMS[kind], gpu)
