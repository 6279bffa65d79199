"""Plans of mma: whole clusters before a split wave, and accesses that the hardware has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from golden_floats import BODY, conv, real

from qconv import Conv2d, generator
from qconv.generator.families.mma import plan as mma
from qconv.targets.target import TARGETS
from tests.templates.test_mma_sanitizers import BASE


def test_the_tiles_that_are_not_split_are_whole_clusters() -> None:
    """Otherwise the blocks of one cluster would have tiles of both kinds."""
    target = TARGETS["sm_120"]
    assert target.processors % 4 != 0, "a round of tiles is whole clusters by itself"
    # One wave of tiles, and a few more.
    problem = Conv2d(1, 65, 85, 256, 32, 1, 1)
    plan = mma.plan(problem, replace(BASE, split_last_wave=1, split=4, tile_k=64, pipeline_stages=2), target)
    assert plan.combine == "cluster"
    assert plan.whole % plan.config.split == 0
    assert plan.blocks % plan.config.split == 0


@pytest.mark.parametrize(("residual", "widest"), [("float16", 8), ("float32", 4)])
def test_no_lane_reads_more_than_sixteen_bytes_of_residuals(residual: str, widest: int) -> None:
    problem = conv(BODY, replace(real("float16"), residual=residual))
    plans, _ = generator.space(problem, TARGETS["sm_80"])
    assert max(plan.vector_n for plan in plans if isinstance(plan, mma.MmaPlan)) == widest
