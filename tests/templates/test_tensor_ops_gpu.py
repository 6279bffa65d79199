"""The kernels of the ops between convolutions on a GPU: random configs of random problems, bit for bit."""

from __future__ import annotations

import pytest
from kernel_checks import check_random_problems
from random_expressions import maps
from random_tensor_ops import argmaxes, binary_problems, concats, global_pools, pools, shuffles

from qconv.device import Device
from qconv.op import Problem
from qconv.tensor_ops import Table

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
    check_random_problems(PROBLEMS[family], gpu)
