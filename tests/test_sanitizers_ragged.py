"""Two convolutions in one kernel where tiles and channels do not come out even: what lies past the end is left alone.

The other plans under the sanitizers have tiles for all teams and whole shares of channels.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_matrix import constants
from test_sanitizers_fused import GIVES, SM_80, SM_90A, TAKES, conv, plan_of
from test_sanitizers_mma import EARLY, LATE, check

from qconv import generator
from qconv.fused import Chain, chain_of

pytestmark = pytest.mark.slow


def test_a_team_without_a_tile_reads_nothing() -> None:
    """Copies are made at once: nobody waits for those of such a team."""
    plan = plan_of(SM_80, "dense pw", tile_h=14, tile_w=14, teams=2, holds=1)
    assert isinstance(plan.problem, Chain)
    one_image = chain_of([replace(stage, n=1) for stage in plan.problem.stages.values()])
    plan = generator.plan(one_image, plan.config, plan.target)
    known = constants(plan)
    assert known["TILES"] < known["PLACES"], "every team has a tile"
    check(plan, "address", EARLY)


def test_a_last_share_of_few_channels_ends_with_them() -> None:
    plan = plan_of(SM_90A, "dw pw", c=48, shares=2, holds=1, second_n=1)
    share = constants(plan.stages["first"])["BLOCK_K"]
    assert plan.stages["first"].problem.outputs[0].shape[-1] % share != 0, "every share is whole"
    check(plan, "address", LATE)


def test_a_slab_that_begins_within_a_group_reads_no_channels_past_the_last() -> None:
    """Their weights would be zero, but they lie behind the intermediate tensor."""
    plan = plan_of(SM_80, "pw grouped", second_n=2)
    assert isinstance(plan.problem, Chain)
    wide = conv("pw", 16, 48, GIVES)
    plan = generator.plan(chain_of([wide, conv("grouped", 48, 48, TAKES)]), plan.config, plan.target)
    known = constants(plan.stages["second"])
    first = (known["ALL_SLABS"] - 1) * known["SLAB_K"] // 24 * 24 // 16
    assert first + known["CHUNKS"] > known["ALL_CHUNKS"], "every slab's chunks end with the input's by themselves"
    check(plan, "address", LATE)
