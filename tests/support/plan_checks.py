"""What holds for every plan of a family: its tiles and units cover the problem, and none of them is empty."""

from __future__ import annotations

from random_matrix import constants

from qconv.generator.halo import HaloPlan
from qconv.generator.persistent import PersistentPlan
from qconv.generator.pointwise import PointwisePlan
from qconv.generator.tcgen05 import Tcgen05Plan
from qconv.generator.wgmma import WgmmaPlan


def check_units_of_pointwise(plan: PointwisePlan) -> None:
    """Every pixel is in a unit, every channel in a slab, and units begin where vectors of 16 bytes do."""
    problem = plan.problem
    assert (plan.units - 1) * plan.unit < problem.pixels <= plan.units * plan.unit
    slab_k = 8 * plan.config.atoms
    assert (plan.slabs - 1) * slab_k < problem.k <= plan.slabs * slab_k
    assert (plan.steps - 1) * 32 < problem.c <= plan.steps * 32
    assert plan.unit % 16 == plan.stage_bytes % 16 == 0
    assert problem.k % plan.vector_k == 2 * plan.config.atoms % plan.vector_k == 0
    assert plan.main.grid == (plan.blocks, 1, 1)
    assert plan.blocks <= plan.units


def check_tiles_of_persistent(plan: PersistentPlan) -> None:
    if isinstance(plan, WgmmaPlan):
        check_tiles_of_wgmma(plan)
    elif isinstance(plan, Tcgen05Plan):
        check_tiles_of_tcgen05(plan)
    else:
        assert isinstance(plan, HaloPlan)
        check_tiles_of_halo(plan)


def check_tiles_of_wgmma(plan: WgmmaPlan) -> None:
    """Every output is in a tile, no tile is without one, and a slot is free for every copy that is asked for."""
    problem, known = plan.problem, constants(plan)
    channels, pixels = plan.tile
    along_pixels = plan.tiles // plan.channel_tiles
    assert along_pixels * plan.channel_tiles == plan.tiles
    assert (plan.channel_tiles - 1) * channels < problem.k <= plan.channel_tiles * channels
    assert (along_pixels - 1) * pixels < problem.pixels <= along_pixels * pixels
    assert plan.main.grid == (known["BLOCKS"], 1, 1)
    assert known["BLOCKS"] == min(plan.tiles, plan.target.processors)
    assert min(known["PIXEL_SLOTS"], known["WEIGHT_SLOTS"]) >= 2
    folds = problem.quantization.x_zero_point * (2 if plan.borders is not None else 1)
    assert len(plan.prepare) == 1 + folds


def check_tiles_of_tcgen05(plan: Tcgen05Plan) -> None:
    """Every output is in a tile, no tile is without one, and both accumulators have room."""
    problem, known, config = plan.problem, constants(plan), plan.config
    along_pixels = plan.tiles // plan.channel_tiles
    assert along_pixels * plan.channel_tiles == plan.tiles
    assert (plan.channel_tiles - 1) * config.channels < problem.k <= plan.channel_tiles * config.channels
    assert (along_pixels - 1) * config.pixels < problem.pixels <= along_pixels * config.pixels
    assert plan.main.grid == (known["BLOCKS"], 1, 1)
    assert known["BLOCKS"] == min(plan.tiles, plan.target.processors)
    assert 2 * config.strips * 32 <= known["COLUMNS"] <= 512
    assert problem.k % plan.vector_k == 0
    folds = problem.quantization.x_zero_point * (2 if plan.borders is not None else 1)
    assert len(plan.prepare) == folds


def check_tiles_of_halo(plan: HaloPlan) -> None:
    """Every output is in a tile, no tile is without one, a block keeps its channels, and windows have two slots."""
    problem, known, config = plan.seen, constants(plan), plan.config
    down, across = known["TILES_DOWN"], known["TILES_ACROSS"]
    assert problem.pixels == plan.problem.pixels
    assert plan.tiles == plan.channel_tiles * problem.n * down * across
    assert (plan.channel_tiles - 1) * config.channels < problem.k <= plan.channel_tiles * config.channels
    assert (down - 1) * config.rows < problem.oh <= down * config.rows
    assert (across - 1) * 8 < problem.ow <= across * 8
    assert plan.main.grid == (known["BLOCKS"], 1, 1)
    assert known["BLOCKS"] <= max(plan.channel_tiles, plan.target.processors)
    assert known["BLOCKS"] % plan.channel_tiles == 0
    assert known["SLOTS"] >= 2
    assert known["SMEM_BYTES"] <= plan.target.smem_bytes
    folds = problem.quantization.x_zero_point * (2 if plan.borders is not None else 1)
    assert len(plan.prepare) == 1 + folds
