"""The kernels of the ops between convolutions on a GPU: random configs of random problems, bit for bit."""

from __future__ import annotations

import random

import pytest
from random_expressions import maps
from random_tensor_ops import argmaxes, binary_problems, concats, global_pools, pools, shuffles

from qconv import generator
from qconv.device import Device
from qconv.instances.load.pair import load
from qconv.op import Problem
from qconv.ops import registry
from qconv.tensor_ops import Table
from qconv.tuner.measure.verification import mismatch

PROBLEMS: dict[str, list[Problem]] = {
    "binary": [*binary_problems(5, 40)],
    "table": [Table(size) for size in (1, 700, 4096, 99_999, 2**20)],
    "concat": [*concats(5, 40)],
    "pooling": [*pools(5, 40)],
    "global_pooling": [*global_pools(5, 20)],
    "argmax": [*argmaxes(5, 40)],
    "shuffle": [*shuffles(5, 40)],
    "map": [*maps(5, 100)],
}


@pytest.mark.gpu
@pytest.mark.parametrize("family", PROBLEMS)
def test_random_problems(family: str, gpu: Device) -> None:
    for index, problem in enumerate(PROBLEMS[family]):
        plans, _ = generator.space(problem, gpu.target)
        chosen = (generator.default(problem, gpu.target), random.Random(f"{index} {problem}").choice(plans))
        for plan in chosen:
            assert mismatch(load(plan, gpu), registry.draw(problem, index)) is None, f"{problem} {plan.config}"
