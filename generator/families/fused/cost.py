"""The predicted clocks of two or three convolutions in one kernel."""

from __future__ import annotations

from qconv.generator.families.fused.plan import FusedPlan
from qconv.generator.plan import ceil_div

# Fitted to 166 configs on an H200.
LAUNCH = 4100  # clocks per launch
EXCHANGE = 1750  # clocks in which the blocks of a cluster exchange the intermediate tensor
HOLDING = 130  # bytes per clock at which weights arrive in shared memory
STREAMING = 11.4  # bytes per clock at which tiles arrive and leave
HIDING = 1.9  # relative slowdown of a single warp, whose stalls no other warp hides
LACKING = 1.0  # relative slowdown of a layer that needs twice the registers that it has
# The best configs of 163 chains took about 0.92 of the predicted clocks. With a factor of 0.9 the fewest chains are
# wrongly predicted to be slower than two kernels.
FITTED = 0.9


def cost(plan: FusedPlan) -> float:
    config, target = plan.config, plan.target
    works = [layer.work for layer in plan.layer_plans.values()]
    issued, longest = sum(work.issued for work in works), sum(work.longest for work in works)
    if target.vendor == "cpu":  # threads run one after the other
        return plan.tiles * config.cluster_blocks * issued
    turns = ceil_div(plan.tiles, plan.grid_teams)
    resident = min(config.blocks_per_sm * config.teams, ceil_div(plan.tiles * config.cluster_blocks, target.processors))
    lacking = 1 + LACKING * _lacking(plan)
    issued, longest = issued * lacking * (1 + HIDING / (resident * config.warps)), longest * lacking
    tile_bytes = plan.problem.io_bytes / plan.tiles / config.cluster_blocks
    # A multiprocessor is limited by the instructions of all its blocks, by the slowest warp, or by device memory.
    turn = max(resident * issued, longest, resident * tile_bytes / STREAMING) + (
        EXCHANGE if config.cluster_blocks > 1 and not plan.by_slices else 0
    )
    in_chunks, in_plane = plan.geometry.planes[0]
    first_bytes = resident * 16 * in_chunks * in_plane  # all warps wait for it
    return FITTED * (
        turns * turn + LAUNCH + first_bytes / STREAMING + config.blocks_per_sm * plan.weight_smem_bytes / HOLDING
    )


def _lacking(plan: FusedPlan) -> float:
    """Return the share of registers that a thread lacks. Layers of warpgroups do not count: their sums must not spill,
    so that their estimate is higher than their need."""
    registers = [layer.registers for layer in plan.layer_plans.values() if layer.kind != "warpgroup"]
    threads = plan.config.blocks_per_sm * plan.block_threads
    return max(0.0, max(registers, default=0) * threads / plan.target.registers_per_sm - 1)
