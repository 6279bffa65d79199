"""Padding only below and on the right, as layers of stride 2 often have it, is the zero point like any other."""

from __future__ import annotations

import pytest
from exactness import check

from qconv import Conv2d, Quantization, generator
from qconv.device import open_device
from qconv.generator import Plan
from qconv.generator.families.simt import Simt
from qconv.targets.target import TARGETS
from tests.templates.test_mma_sanitizers import plan_of

TILE = {"tile_m": 16, "tile_n": 16, "tile_k": 32, "warp_m": 16, "warp_n": 16, "pipeline_stages": 2}
SHIFTED = Quantization(x_zero_point=True, bias="int32")
HALVED = Conv2d(1, 8, 8, 16, 16, 3, 3, stride=2, pad=(0, 0, 1, 1), quantization=SHIFTED)
# Two threads of the fold per copy of the padding, and more kernel threads than those, which read other copies.
FEW = Conv2d(1, 24, 24, 16, 4, 3, 3, pad=1, quantization=SHIFTED)
PLANS = {
    "simt": generator.plan(HALVED, Simt(16, 16, 32, 2, 4, 1), TARGETS["cpu"]),
    "mma": plan_of("cpu.sm_80", HALVED, SHIFTED, **TILE),
    "mma, few channels": plan_of("cpu.sm_80", FEW, SHIFTED, **TILE | {"tile_m": 32}),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_it_is_the_zero_point(plan: Plan) -> None:
    check(plan, open_device(plan.target.name), seed=3)
