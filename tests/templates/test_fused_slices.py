"""Blocks with the same channels of both layers, where a depthwise layer comes last: each block keeps and writes only
its own. Tolerance 0."""

from __future__ import annotations

from dataclasses import replace

import pytest
from exactness import check
from random_fused import TILE

from qconv import generator
from qconv.device.cpu import CpuDevice
from qconv.errors import Infeasible
from qconv.generator.families.fused.layer import chunks
from qconv.generator.families.fused.plan import FusedPlan
from qconv.problem.chain import Chain, chain_of
from qconv.targets.target import TARGETS
from tests.templates.test_fused_sanitizers import GIVES, SM_80, SM_90A, TAKES, conv
from tests.templates.test_mma_sanitizers import EARLY, LATE
from tests.templates.test_simt_sanitizers import check as check_sanitized


def plan_of(target: str, channels: int = 80, first: str = "pw", last: str = "dw", **config: int) -> FusedPlan:
    """Return a plan: 80 channels are two slices of 64 and 16 if slabs have 32; divided evenly they would be 48 and
    32."""
    gives = replace(GIVES, w_zero_point=GIVES.w_zero_point and not config.get("on_wgmma"))
    c = channels if first == "dw" else 24
    pair = chain_of([conv(first, c, channels, gives), conv(last, channels, channels, TAKES)])
    config = {"cluster_blocks": 2, "first_n": 4, "second_n": 1, "warps": 4} | config
    made = generator.plan(pair, replace(TILE, **config), TARGETS[target])
    assert isinstance(made, FusedPlan)
    return made


PLANS = {
    "warps": plan_of(SM_80),
    "warps, weights in smem": plan_of(SM_80, weights_in_smem=1, second_m=2),
    "warpgroups": plan_of(SM_90A, weights_in_smem=1, on_wgmma=1),
    "warpgroups, three": plan_of(SM_90A, channels=96, cluster_blocks=3, weights_in_smem=1, on_wgmma=1),
    "six": plan_of(SM_80, channels=96, cluster_blocks=6, first_n=2),
    "3x3 before it": plan_of(SM_90A, first="dense", weights_in_smem=1, on_wgmma=1),
    "depthwise before it": plan_of(SM_80, first="dw", first_n=1),
    "few tiles in turn": plan_of(SM_90A, tile_h=2, weights_in_smem=1, on_wgmma=1),
    "whole images": plan_of(SM_80, tile_h=14, tile_w=14, blocks_per_sm=4),
    "mfma": plan_of("cpu.gfx942", first_n=2),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_it_is_exact(name: str) -> None:
    plan, seed = PLANS[name], (LATE, EARLY)[list(PLANS).index(name) % 2]
    check(plan, CpuDevice(plan.target, seed=seed), seed=seed)


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_found(name: str, sanitizer: str) -> None:
    check_sanitized(PLANS[name], sanitizer, LATE if sanitizer == "address" else EARLY)


@pytest.mark.parametrize("name", PLANS)
def test_a_block_keeps_its_own_channels_alone(name: str) -> None:
    plan = PLANS[name]
    first, second = plan.layers.values()
    assert first.block_k == second.block_k < first.problem.k
    assert plan.geometry.planes[1][0] == chunks(first.block_k, first.problem.quantization.types.y)
    assert (plan.cluster, plan.main.cluster, plan.clusters) == (1, 1, False)


def test_the_plans_are_what_they_are_for() -> None:
    ragged = {name for name, plan in PLANS.items() if plan.first.problem.k % plan.first.block_k}
    assert {"warps", "warpgroups", "3x3 before it"} <= ragged
    assert {plan.first.kind for plan in PLANS.values()} == {"matrix", "warpgroup", "depthwise"}
    assert {plan.stays for plan in PLANS.values()} == {True, False}


def test_as_many_blocks_are_resident_as_without_clusters() -> None:
    """A cluster of more than two leaves SMs idle; independent blocks do not."""
    pair = chain_of([replace(layer, n=64) for layer in plan_of("sm_90a", 128).problem.layers.values()])
    config = replace(TILE, cluster_blocks=4, first_n=4, second_n=1)
    assert generator.plan(pair, config, TARGETS["sm_90a"]).main.grid[0] == TARGETS["sm_90a"].processors


def test_slices_are_whole_chunks() -> None:
    with pytest.raises(Infeasible, match=r"cluster_blocks=2: 24 channels of a block .* first_n=4 serves any"):
        plan_of(SM_80, channels=48, first_n=3)


def searched(problem: Chain) -> list[FusedPlan]:
    plans, _ = generator.space(problem, TARGETS["sm_90a"])
    return [plan for plan in plans if isinstance(plan, FusedPlan)]


def test_the_space_has_them_where_a_depthwise_layer_comes_last() -> None:
    found = searched(PLANS["warpgroups"].problem)
    assert {plan.config.cluster_blocks for plan in found} >= {1, 2, 3}
    assert not any(plan.clusters for plan in found)
    others = searched(chain_of([conv("dw", 64, 64, GIVES), conv("pw", 64, 64, TAKES)]))
    assert {plan.config.cluster_blocks for plan in others} <= {1, 2, 4}
    assert not any(plan.by_slices for plan in others)
