"""The kernels of attention on a GPU: random configs of random problems, bit for bit."""

from __future__ import annotations

import random

import pytest
from random_attentions import Sizes, attentions, of

from qconv import generator
from qconv.device import Device
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.tuner.measure.verification import mismatch

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
    for index, problem in enumerate(PROBLEMS[kind]):
        plans, _ = generator.space(problem, gpu.target)
        chosen = (generator.default(problem, gpu.target), random.Random(f"{index} {problem}").choice(plans))
        drawn = registry.draw(problem, index)
        for plan in chosen:
            assert mismatch(load(plan, gpu), drawn) is None, f"{problem} {plan.config}"
