"""The cost model of two or three convolutions in one kernel, and lower bounds for configs that have tiles in common."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from qconv.errors import Infeasible
from qconv.generator.families import Choices, Group
from qconv.generator.families.fused.config import Fused, Shape, is_sliced, shapes, tiles_of
from qconv.generator.families.fused.layer import Work
from qconv.generator.families.fused.plan import FusedPlan, blocks_of, cluster_of, least_registers
from qconv.generator.plan import ceil_div
from qconv.generator.tiles import check_blocks_per_sm
from qconv.problem.chain import Chain
from qconv.targets.target import Target

# The cost model is fitted to 166 configs on an H200.
LAUNCH = 4100  # clocks per launch
EXCHANGE = 1750  # clocks in which the blocks of a cluster exchange the intermediate tensor
HOLDING = 130  # bytes per clock at which weights arrive in shared memory
STREAMING = 11.4  # bytes per clock at which tiles arrive and leave
HIDING = 1.9  # relative slowdown of a single warp, whose stalls no other warp hides
LACKING = 1.0  # relative slowdown of a layer that needs twice the registers that it has
# The best configs of 163 chains took about 0.92 of the predicted clocks. With a factor of 0.9 the fewest chains are
# wrongly predicted to be slower than two kernels.
FITTED = 0.9


class Demand(NamedTuple):
    """The properties of a plan that decide its cost, beside its config."""

    tiles: int
    grid_teams: int
    work: Work  # of all layers for a tile
    registers: int  # per thread, of the layers that warps compute
    input_plane: tuple[int, int]  # chunks and pixels of the input in shared memory
    weight_smem_bytes: int


def cost(plan: FusedPlan) -> float:
    layers = plan.layer_plans.values()
    # Layers of warpgroups have no lack of registers: their sums must not spill, so that their estimate is higher than
    # their need.
    registers = max((layer.registers for layer in layers if layer.kind != "warpgroup"), default=0)
    demand = Demand(
        plan.tiles,
        plan.grid_teams,
        _together([layer.work for layer in layers]),
        registers,
        plan.geometry.planes[0],
        plan.weight_smem_bytes,
    )
    return _clocks(plan.problem, plan.config, plan.target, demand)


def groups(problem: Chain, target: Target, choices: Choices) -> Iterator[Group]:
    """Generate the promising configs by their tiles. All plans of a group have the same grid. The bound takes the least
    of what each layer needs; it is infinite where even that does not fit a multiprocessor."""
    for shape in shapes(problem, target, choices):
        yield Group(_least(problem, shape, target), shape.configs())


def _least(problem: Chain, shape: Shape, target: Target) -> float:
    layers, config = dict(zip(problem.LAYERS, shape.subtiles, strict=True)), shape.config
    weight_smem_bytes = sum(layers[layer].weight_smem_bytes for layer in shape.weights.in_smem)
    if not _may_fit(shape, weight_smem_bytes, target):
        return math.inf
    tiles = tiles_of(problem, config.tile_h, config.tile_w)[2]
    blocks = blocks_of(tiles, config, cluster_of(problem, config, target), target)
    registers = [one.registers for layer, one in layers.items() if layer not in shape.weights.on_wgmma]
    demand = Demand(
        tiles,
        blocks * config.teams,
        _together([one.work for one in shape.subtiles]),
        max(registers, default=0),
        shape.room.planes[0],
        weight_smem_bytes,
    )
    return _clocks(problem, config, target, demand)


def _may_fit(shape: Shape, weight_smem_bytes: int, target: Target) -> bool:
    config = shape.config
    threads = config.teams * config.warps * target.warp_size
    smem_bytes = config.teams * shape.room.smem_bytes + weight_smem_bytes
    estimated = max(one.registers for one in shape.subtiles)
    registers = least_registers(estimated, config.blocks_per_sm * threads, target)
    try:
        check_blocks_per_sm(config.blocks_per_sm, threads, smem_bytes, registers, target)
    except Infeasible:
        return False
    return True


def _together(works: Sequence[Work]) -> Work:
    return Work(sum(work.issued for work in works), sum(work.longest for work in works))


def _clocks(problem: Chain, config: Fused, target: Target, demand: Demand) -> float:
    """Return the clocks of a launch. They do not decrease where a part of the demand grows but for the grid."""
    tiles, (issued, longest) = demand.tiles, demand.work
    if target.vendor == "cpu":  # threads run one after the other
        return tiles * config.cluster_blocks * issued
    turns = ceil_div(tiles, demand.grid_teams)
    resident = min(config.blocks_per_sm * config.teams, ceil_div(tiles * config.cluster_blocks, target.processors))
    threads = config.blocks_per_sm * config.teams * config.warps * target.warp_size
    lacking = 1 + LACKING * max(0.0, demand.registers * threads / target.registers_per_sm - 1)
    issued, longest = issued * lacking * (1 + HIDING / (resident * config.warps)), longest * lacking
    tile_bytes = problem.io_bytes / tiles / config.cluster_blocks
    # A multiprocessor is limited by the instructions of all its blocks, by the slowest warp, or by device memory.
    turn = max(resident * issued, longest, resident * tile_bytes / STREAMING) + (
        EXCHANGE if config.cluster_blocks > 1 and not is_sliced(problem, config.cluster_blocks) else 0
    )
    in_chunks, in_plane = demand.input_plane
    first_bytes = resident * 16 * in_chunks * in_plane  # all warps wait for it
    return FITTED * (
        turns * turn + LAUNCH + first_bytes / STREAMING + config.blocks_per_sm * demand.weight_smem_bytes / HOLDING
    )
