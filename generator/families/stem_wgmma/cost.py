"""What the `stem_wgmma` family costs, in clocks: fitted to 430 kernels of 14 layers that an H200 timed, 8 % off (root
mean square)."""

from __future__ import annotations

from qconv.generator.cost_units import at_once, moved_bytes, of_activation
from qconv.generator.families.stem_wgmma.plan import StemWgmmaPlan
from qconv.generator.plan import ceil_div

# Clocks of a launch: its start, until the first cells are there, and its end.
START = 4020
# Bytes of device memory that come in a clock while nothing else is waited for.
STREAM = 14.2
# Until the first product of a tile is begun, when the one before has issued its own.
TURN = 128
# Outputs of a tile: what does not depend on their number, and eight pixels of 64 channels; how much longer these take
# with what an input zero point adds.
WRITE, OF_EIGHT, OF_OFFSET = 569, 30.5, 0.24
# The part of the outputs' clocks in which nothing is multiplied: both use the same ports of the registers.
PORTS = 0.64
# Eight pixels of 64 channels that lanes store, two channels at a time: a consumer's, and what the stores of all
# consumers take of a multiprocessor.
DIRECT, STORES = 180, 97
# Cells of a tile: what does not depend on their number, and 32 lanes' pairs.
CELLS, OF_PAIRS = 402, 355


def cost(plan: StemWgmmaPlan) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan)
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 6) + START


def _tile(plan: StemWgmmaPlan) -> float:
    """One consumer multiplies at a time; all of them write at once, and so do teams make cells."""
    config, q = plan.config, plan.problem.quantization
    products = plan.steps * max(4 * config.rows, 20)
    made = OF_EIGHT * config.rows * (1 + of_activation(plan.problem) / 8 + OF_OFFSET * q.x_zero_point)
    stored = 0 if plan.staged else config.rows * min(64, plan.problem.k) / 64 * 2 / plan.vector_k
    waited = (products + TURN + WRITE + made + DIRECT * stored) / config.consumers
    return at_once(max(waited, STORES * stored, of_cells(plan.pairs, config.team)), products + PORTS * made, 3)


def of_cells(pairs: int, team: int) -> float:
    """What a tile's take by teams of so many of four warps."""
    return (CELLS + OF_PAIRS * ceil_div(pairs, 32 * team)) * team / 4
