"""The time of a `stem_wgmma` kernel, in clocks: fitted to 430 kernels of 14 layers timed on an H200. The root mean
square error is 8 %."""

from __future__ import annotations

from qconv.generator.cost_units import at_once, moved_bytes, of_activation
from qconv.generator.families.stem_wgmma.plan import StemWgmmaPlan
from qconv.generator.plan import ceil_div

# Clocks of a launch: its start, the wait for the first cells, and its end.
START = 4020
# Bytes of device memory per clock and multiprocessor, without other stalls.
STREAM = 14.2
# Clocks from the last product issued for a tile to the first of the next.
TURN = 128
# Clocks to write the outputs of a tile: a fixed part, and one per eight pixels of 64 channels; the fraction by which an
# input zero point lengthens the latter.
WRITE, OF_EIGHT, OF_OFFSET = 569, 30.5, 0.24
# The part of the outputs' clocks in which nothing is multiplied: both use the same register ports.
PORTS = 0.64
# Clocks for lanes to store eight pixels of 64 channels, two channels at a time: of a consumer, and of the
# multiprocessor for the stores of all consumers.
DIRECT, STORES = 180, 97
# Clocks to make the cells of a tile: a fixed part, and one per 32 pairs, a warp's.
CELLS, OF_PAIRS = 402, 355


def cost(plan: StemWgmmaPlan) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan)
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 6) + START


def _tile(plan: StemWgmmaPlan) -> float:
    """Clocks per tile. One consumer multiplies at a time, while all of them write and all teams make cells."""
    config, q = plan.config, plan.problem.quantization
    products = plan.steps * max(4 * config.rows, 20)
    made = OF_EIGHT * config.rows * (1 + of_activation(plan.problem) / 8 + OF_OFFSET * q.x_zero_point)
    stored = 0 if plan.staged else config.rows * min(64, plan.problem.k) / 64 * 2 / plan.vector_k
    waited = (products + TURN + WRITE + made + DIRECT * stored) / config.consumers
    return at_once(max(waited, STORES * stored, of_cells(plan.pairs, config.team)), products + PORTS * made, 3)


def of_cells(pairs: int, team: int) -> float:
    """Clocks to make the cells of a tile, where a team has `team` of the producer's four warps."""
    return (CELLS + OF_PAIRS * ceil_div(pairs, 32 * team)) * team / 4
