"""Random chains of convolutions in one kernel on the first GPU, compared with the oracle bit for bit.

Under compute-sanitizer, which also detects errors without wrong results, a few launches suffice:

    compute-sanitizer --tool memcheck python -m pytest tests/templates/test_fused_random_gpu.py -k sanitizer
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from exactness import check
from random_fused import fused_plan, fused_problems

from qconv import generator
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.generator.families.fused.config import Fused

COUNT, CHUNK, SEED = 200, 10, 7
COUNT_OF_THREE = 80

WIDE = {
    "warps": 4,
    "blocks_per_sm": 1,
    "teams": 2,
    "cluster_blocks": 1,
    "weights_in_smem": 1,
    "first_m": 1,
    "second_m": 1,
}
BOTH = [WIDE | {"weights_in_smem": 2, "on_wgmma": wide, "tile_w": 8} for wide in (1, 2)]

pytestmark = pytest.mark.gpu


def check_some(gpu: Device, first: int, count: int) -> None:
    for index, problem in list(enumerate(fused_problems(SEED, COUNT, gpu.target)))[first : first + count]:
        plan = fused_plan(problem, gpu.target, index)
        check(plan, gpu, seed=index)
        assert isinstance(plan.config, Fused)
        # Clusters, whose blocks alternate on the CPU device, and warpgroups, whose instructions it emulates.
        for others in ({"cluster_blocks": 2, "teams": 1}, WIDE | {"on_wgmma": 1}, *BOTH):
            try:
                check(generator.plan(problem, replace(plan.config, **others), gpu.target), gpu, seed=index)
            except Infeasible:
                continue


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_a_random_config(first: int, gpu: Device) -> None:
    check_some(gpu, first, CHUNK)


@pytest.mark.parametrize("first", range(0, COUNT_OF_THREE, CHUNK))
def test_a_random_config_of_three(first: int, gpu: Device) -> None:
    every = fused_problems(SEED, COUNT_OF_THREE, gpu.target, layers=3)
    for index, problem in list(enumerate(every))[first : first + CHUNK]:
        plan = fused_plan(problem, gpu.target, index)
        check(plan, gpu, seed=index)
        assert isinstance(plan.config, Fused)
        for others in (
            {"weights_in_smem": 2, "on_wgmma": 1},
            {"weights_in_smem": 2, "on_wgmma": 2},
            {"weights_in_smem": 3, "on_wgmma": 3},
            {"weights_in_smem": 0, "on_wgmma": 1},
        ):
            subtiles = {f"{layer}_m": 1 for layer in problem.LAYERS}
            config = replace(plan.config, warps=4, tile_w=8, **others, **subtiles)
            try:
                check(generator.plan(problem, config, gpu.target), gpu, seed=index)
            except Infeasible:
                continue


def test_a_few_for_the_sanitizer(gpu: Device) -> None:
    check_some(gpu, 0, 8)
