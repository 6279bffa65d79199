"""The predicted clocks of two or three convolutions in one kernel."""

from __future__ import annotations

from qconv.generator.families.fused.plan import FusedPlan
from qconv.generator.plan import ceil_div

# Fitted to 166 configs on an H200.
LAUNCH = 4100  # clocks of a launch
EXCHANGE = 1750  # clocks in which the blocks of a tile exchange the intermediate
HOLDING = 130  # bytes of weights to hold that come in a clock
STREAMING = 11.4  # bytes of the tiles that come in a clock
HIDING = 1.9  # how much longer instructions take with one warp, for others hide what it waits for
LACKING = 1.0  # how much longer a layer takes that lacks as many registers as it has
# The best of 163 chains took about 0.92 of the clocks that this counts; with 0.9 fewer are decided wrongly against two.
FITTED = 0.9


def cost(plan: FusedPlan) -> float:
    config, target = plan.config, plan.target
    works = [layer.work for layer in plan.layer_plans.values()]
    issued, longest = sum(work.issued for work in works), sum(work.longest for work in works)
    if target.vendor == "cpu":  # one thread after the other
        return plan.tiles * config.cluster_blocks * issued
    turns = ceil_div(plan.tiles, plan.grid_teams)
    resident = min(config.blocks_per_sm * config.teams, ceil_div(plan.tiles * config.cluster_blocks, target.processors))
    lacking = 1 + LACKING * _lacking(plan)
    issued, longest = issued * lacking * (1 + HIDING / (resident * config.warps)), longest * lacking
    tile_bytes = plan.problem.io_bytes / plan.tiles / config.cluster_blocks
    # What all blocks of a multiprocessor issue, what the longest warp of one waits for, what the memory brings.
    turn = max(resident * issued, longest, resident * tile_bytes / STREAMING) + (
        EXCHANGE if config.cluster_blocks > 1 and not plan.by_slices else 0
    )
    in_chunks, in_plane = plan.geometry.planes[0]
    first_bytes = resident * 16 * in_chunks * in_plane  # that all wait for
    return FITTED * (
        turns * turn + LAUNCH + first_bytes / STREAMING + config.blocks_per_sm * plan.weight_smem_bytes / HOLDING
    )


def _lacking(plan: FusedPlan) -> float:
    """Registers that a thread lacks, over those that it has. Warpgroups are left out: their sums may not spill,
    so that more registers are asked for than they need."""
    registers = [layer.registers for layer in plan.layer_plans.values() if layer.kind != "warpgroup"]
    threads = plan.config.blocks_per_sm * plan.block_threads
    return max(0.0, max(registers, default=0) * threads / plan.target.registers_per_sm - 1)
