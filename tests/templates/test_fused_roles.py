"""Variants of fused kernels that few random plans have, each in a dedicated plan: tolerance 0.

They run without a sanitizer, whose compilers take ten times as long for these kernels.
"""

from __future__ import annotations

import pytest
from exactness import check
from random_fused import TILE

from qconv import Conv2d, generator
from qconv.device.cpu import CpuDevice
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS
from tests.templates.test_fused_sanitizers import GIVES, PLANS, SM_80, SM_90A, TAKES, plan_of
from tests.templates.test_mma_sanitizers import EARLY, LATE

NAMES = (
    *("dw, pw", "pw, dw", "dense, grouped", "dw, pw, shared", "dense, pw, in smem", "dw, pw, teams", "dw, pw, cluster"),
    *("dw, pw, streamed", "pw, dense, warpgroups", "halved, pw, eights", "dense, pw, warpgroups of 24 and 80"),
    "halved, pw",
)


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMES)
def test_it_is_exact(name: str) -> None:
    """Alternates between copies as late as allowed and as early."""
    plan, seed = PLANS[name], (LATE, EARLY)[NAMES.index(name) % 2]
    check(plan, CpuDevice(plan.target, seed=seed), seed=seed)


# More than the threads of a block: each thread has several in turn.
MANY = {
    "channels of a depthwise layer": plan_of(SM_80, "dw pw", c=520, side=16, first_n=1),
    "vectors of a row of the input": plan_of(SM_80, "pw dw", c=256),
    "channels of weights in shared memory": plan_of(
        SM_90A, "dense pw", k=144, weights_in_smem=2, on_wgmma=2, first_n=4, second_n=2
    ),
    "runs of pixels of a slab that is fetched": plan_of(
        SM_90A, "pw dense", k=48, tile_h=14, tile_w=14, on_wgmma=1, second_n=1
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", MANY)
def test_a_thread_has_several(name: str) -> None:
    plan = MANY[name]
    check(plan, CpuDevice(plan.target, seed=LATE), seed=2)


def test_the_last_block_of_a_cluster_has_fewer_slabs() -> None:
    plan = plan_of(SM_90A, "dw pw", c=32, k=72, cluster_blocks=2, weights_in_smem=1, on_wgmma=1, second_n=1)
    second = plan.layers["second"]
    assert second.divided
    assert second.problem.k % second.block_k != 0, "every share is whole"
    check(plan, CpuDevice(plan.target, seed=LATE), seed=2)


def test_rows_and_columns_are_padded_each_by_its_own() -> None:
    """The second convolution reads three columns of one row."""
    first = Conv2d(1, 9, 9, 16, 32, 1, 1, quantization=GIVES)
    second = Conv2d(1, 9, 9, 32, 24, 1, 3, pad=(0, 1, 0, 1), quantization=TAKES)
    target = TARGETS[SM_80]
    check(generator.plan(chain_of([first, second]), TILE, target), CpuDevice(target, seed=LATE), seed=2)
