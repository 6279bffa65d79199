"""Two convolutions in one kernel with incomplete tiles and channels: nothing past the end is accessed.

The other plans under the sanitizers have tiles for all teams and whole shares of channels.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from qconv import generator
from qconv.generator.families.fused.matrix import MatrixLayer
from qconv.generator.families.fused.plan import FusedPlan
from qconv.problem.chain import chain_of
from tests.templates.test_fused_sanitizers import GIVES, SM_80, SM_90A, TAKES, conv, plan_of
from tests.templates.test_mma_sanitizers import EARLY, LATE, check

pytestmark = pytest.mark.slow


def test_a_team_without_a_tile_reads_nothing() -> None:
    """Copies are immediate: such a team does not wait for its own."""
    plan = plan_of(SM_80, "dense pw", tile_h=14, tile_w=14, teams=2, weights_in_smem=1)
    one_image = chain_of([replace(layer, n=1) for layer in plan.problem.layers.values()])
    made = generator.plan(one_image, plan.config, plan.target)
    assert isinstance(made, FusedPlan)
    assert made.tiles < made.grid_teams, "every team has a tile"
    check(made, "address", EARLY)


def test_a_last_share_of_few_channels_ends_with_them() -> None:
    plan = plan_of(SM_90A, "dw pw", c=48, cluster_blocks=2, weights_in_smem=1, second_n=1)
    first = plan.layers["first"]
    assert first.problem.k % first.block_k != 0, "every share is whole"
    check(plan, "address", LATE)


def test_a_slab_that_begins_within_a_group_reads_no_channels_past_the_last() -> None:
    """Their weights would be zero, but they are behind the intermediate tensor."""
    plan = plan_of(SM_80, "pw grouped", second_n=2)
    wide = conv("pw", 16, 48, GIVES)
    made = generator.plan(chain_of([wide, conv("grouped", 48, 48, TAKES)]), plan.config, plan.target)
    second = made.layers["second"]
    assert isinstance(second, MatrixLayer)
    first = (second.slabs - 1) * second.slab_k // 24 * 24 // 16
    assert first + second.slab_chunks > 48 // 16, "every slab's chunks end with the input's by themselves"
    check(made, "address", LATE)
