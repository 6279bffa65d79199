"""Invariants of every plan of a family: its tiles and units cover the problem, and none of them is empty."""

from __future__ import annotations

from random_matrix import constants

from qconv.generator.families.halo.plan import HaloPlan
from qconv.generator.families.pointwise import PointwisePlan
from qconv.generator.families.stem_wgmma import StemWgmmaPlan
from qconv.generator.families.tcgen05 import Tcgen05Plan
from qconv.generator.families.wgmma import WgmmaPlan
from qconv.generator.persistent import PersistentPlan
from qconv.problem.convolution import Conv2d


def is_covered(extent: int, count: int, size: int) -> bool:
    """Return true if `count` tiles of this size cover the extent, and none of them is empty."""
    return (count - 1) * size < extent <= count * size


def check_units_of_pointwise(plan: PointwisePlan) -> None:
    """Check that every pixel is in a unit, every channel in a slab, and that units begin at multiples of 16 bytes."""
    problem = plan.problem
    assert is_covered(problem.pixels, plan.units, plan.unit)
    assert is_covered(problem.k, plan.slabs, 8 * plan.config.atoms)
    assert is_covered(problem.c, plan.steps, 32)
    assert plan.unit % 16 == plan.stage_bytes % 16 == 0
    assert problem.k % plan.vector_k == 2 * plan.config.atoms % plan.vector_k == 0
    assert plan.main.grid == (plan.blocks, 1, 1)
    assert plan.blocks <= plan.units


def check_tiles_of_persistent(plan: PersistentPlan) -> None:
    """Check that every output is in a tile, and that no tile is empty."""
    assert plan.main.grid == (plan.blocks * plan.main.cluster, 1, 1)
    assert constants(plan)["BLOCKS"] == plan.blocks
    if isinstance(plan, WgmmaPlan):
        check_wgmma(plan)
    elif isinstance(plan, Tcgen05Plan):
        check_tcgen05(plan)
    elif isinstance(plan, StemWgmmaPlan):
        check_tiles_of_images(plan, plan.problem, 64)
        check_prepared(plan, repacks=1)
    else:
        assert isinstance(plan, HaloPlan)
        check_halo(plan)


def check_wgmma(plan: WgmmaPlan) -> None:
    """Check that a slot is free for every copy."""
    known = constants(plan)
    check_tiles_of_pixels(plan, *plan.tile)
    check_prepared(plan, repacks=1)
    assert min(known["PIXEL_SLOTS"], known["WEIGHT_SLOTS"]) >= 2


def check_tcgen05(plan: Tcgen05Plan) -> None:
    """Check that both accumulators fit."""
    known, config = constants(plan), plan.config
    check_tiles_of_pixels(plan, config.channels, config.pixels)
    check_prepared(plan, repacks=0)
    assert 2 * config.strips * 32 <= known["COLUMNS"] <= 512
    assert plan.problem.k % plan.vector_k == 0


def check_halo(plan: HaloPlan) -> None:
    """Check that windows have two slots."""
    assert plan.reshaped.pixels == plan.problem.pixels
    check_tiles_of_images(plan, plan.reshaped, plan.config.channels)
    check_prepared(plan, repacks=1)
    assert constants(plan)["SLOTS"] >= 2
    assert plan.main.cluster == plan.config.cluster_blocks


def check_tiles_of_images(plan: HaloPlan | StemWgmmaPlan, problem: Conv2d, channels: int) -> None:
    """Check plans whose tiles are rows of eight pixels by `channels` channels, and whose blocks keep their channels."""
    known = constants(plan)
    down, across = known["TILES_DOWN"], known["TILES_ACROSS"]
    assert plan.tiles == plan.channel_tiles * problem.n * down * across
    assert is_covered(problem.k, plan.channel_tiles, channels)
    assert is_covered(problem.oh, down, plan.config.rows)
    assert is_covered(problem.ow, across, 8)
    assert plan.blocks <= max(plan.channel_tiles, plan.target.processors)
    assert plan.blocks % plan.channel_tiles == 0
    assert known["SMEM_BYTES"] <= plan.target.smem_bytes


def check_tiles_of_pixels(plan: PersistentPlan, channels: int, pixels: int) -> None:
    """Check plans whose tiles are `pixels` consecutive pixels by `channels` channels, taken by any block."""
    along_pixels = plan.tiles // plan.channel_tiles
    assert along_pixels * plan.channel_tiles == plan.tiles
    assert is_covered(plan.problem.k, plan.channel_tiles, channels)
    assert is_covered(plan.problem.pixels, along_pixels, pixels)
    assert plan.blocks == min(plan.tiles, plan.target.processors)


def check_prepared(plan: PersistentPlan, repacks: int) -> None:
    """Check the preparing launches: one sums the weights if the input has a zero point, and one more does so for the
    borders."""
    folds = plan.problem.quantization.x_zero_point * (2 if plan.borders is not None else 1)
    assert len(plan.prepare) == repacks + folds
