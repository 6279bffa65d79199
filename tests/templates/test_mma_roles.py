"""Roles of the matrix kernels that few random plans have, each in a dedicated plan: tolerance 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from exactness import check
from random_matrix import constants

from qconv import Conv2d, Quantization
from qconv.device.cpu import CpuDevice
from qconv.errors import Infeasible
from qconv.generator.families.mma.plan import MmaPlan
from tests.templates.test_mma_sanitizers import EVERYTHING, LATE, SM_75, SM_80, plan_of
from tests.templates.test_mma_sanitizers import check as check_sanitized

CHANNEL = Quantization(per_channel=True, bias="int32", activation="relu")
DEEP = Conv2d(1, 7, 7, 128, 32, 3, 3, pad=1)
LONG = Conv2d(1, 7, 7, 64, 40, 3, 3, pad=1)
ODD = Conv2d(1, 7, 7, 24, 40, 3, 3, pad=1)
# Three tiles of channels, so that a block's next tile has others.
THREE = Conv2d(1, 10, 10, 64, 96, 3, 3, pad=1)


def has(plan: MmaPlan, **wanted: Any) -> None:
    """Check that the plan has the feature for which it is tested."""
    seen = vars(plan.roles) | constants(plan)
    assert {name: seen[name] for name in wanted} == wanted


@pytest.mark.parametrize("seed", [2, 3])
def test_many_copies_come_in_parts(seed: int) -> None:
    """Covers eight vectors or more per thread, between the products of a step."""
    plan = plan_of(
        SM_80,
        LONG,
        CHANNEL,
        tile_m=64,
        tile_n=32,
        tile_k=128,
        warp_m=32,
        warp_n=32,
        prefetch_fragments=1,
        pipeline_stages=2,
    )
    has(plan, prefetch_fragments=True, THREADS=64, X_BYTES=16)
    check(plan, CpuDevice(plan.target, seed=seed), seed=seed)


def test_a_tile_of_more_channels_than_threads() -> None:
    plan = plan_of(SM_80, LONG, CHANNEL, tile_m=16, tile_n=64, warp_m=16, warp_n=64, pipeline_stages=2)
    has(plan, THREADS=32, TILE_N=64)
    check(plan, CpuDevice(plan.target, seed=2), seed=2)


def test_all_taps_of_some_channels_before_the_next() -> None:
    plan = plan_of(SM_80, DEEP, CHANNEL, pipeline_stages=2)
    has(plan, taps_first=True)
    check(plan, CpuDevice(plan.target, seed=3), seed=3)


def test_some_blocks_have_a_step_more() -> None:
    """The steps of all tiles are not a multiple of the blocks, so some blocks have one more."""
    plan = plan_of(SM_80, replace(LONG, h=9, w=9), CHANNEL, pipeline_stages=2, persist=1, stream_k=1)
    assert plan.shape.tiles * plan.shape.steps % plan.blocks != 0, "every block has as many steps"
    check(plan, CpuDevice(plan.target, seed=3), seed=3)


VECTORS = plan_of(SM_75, ODD, EVERYTHING, pipeline_stages=2)


def test_vectors_through_registers_end_with_the_reduction() -> None:
    has(VECTORS, loader="registers", gathers_x=False, gathers_w=False, PADDED=True, HAS_REDUCTION_REMAINDER=True)
    check(VECTORS, CpuDevice(VECTORS.target, seed=2), seed=2)


def test_what_is_carried_to_shared_memory_ends_with_the_tile() -> None:
    """There are enough threads for twice as many rows; the memory behind the tile is the stage being multiplied."""
    plan = plan_of("cpu.gfx1100", replace(LONG, c=32), CHANNEL, tile_k=32, warp_m=16, pipeline_stages=2)
    has(plan, loader="buffers", THREADS=128, TILE_M=32, TILE_N=32, X_BYTES=16, W_BYTES=16)
    check(plan, CpuDevice(plan.target, seed=2), seed=2)


@pytest.mark.slow
def test_nothing_is_read_behind_it() -> None:
    check_sanitized(VECTORS, "address", LATE)


@pytest.mark.parametrize("target", [SM_80, SM_75])
def test_a_block_goes_on_to_other_channels(target: str) -> None:
    plan = plan_of(target, THREE, CHANNEL, pipeline_stages=2, persist=1)
    assert plan.blocks % plan.shape.tiles_n != 0, "a block's next tile has the same channels"
    check(plan, CpuDevice(plan.target, seed=2), seed=2)


def test_a_padded_filter_has_no_more_rows_and_columns_than_the_mask_has_bits() -> None:
    with pytest.raises(Infeasible, match="rows and columns together may be 32"):
        plan_of(SM_80, Conv2d(1, 17, 16, 16, 32, 17, 16, pad=1), CHANNEL)
