"""What the `stem_pool` family costs, in clocks: fitted to 11 kernels of ResNet's first layer and its pool that an H200
timed, 4 % off (root mean square)."""

from __future__ import annotations

from typing import Protocol

from qconv.generator.cost_units import at_once, moved_bytes, of_activation
from qconv.generator.plan import ceil_div
from qconv.generator.stem_wgmma_cost import OF_OFFSET, START, STREAM, WRITE, of_cells
from qconv.pooled import PooledConv2d
from qconv.target import Target

# Clocks of a row of four windows of 64 channels: to find their largest sums, and to make outputs of these. Meanwhile
# nothing is multiplied, as far as it counts: both use the same ports of the registers.
POOLED, OUTPUTS = 4.0, 12.0
# Clocks of a tile until its products are begun.
BEGUN = 100


class Config(Protocol):
    """What the model reads of a config."""

    @property
    def windows(self) -> int: ...
    @property
    def team(self) -> int: ...


class Costed(Protocol):
    """What the model reads of a plan."""

    @property
    def problem(self) -> PooledConv2d: ...
    @property
    def target(self) -> Target: ...
    @property
    def config(self) -> Config: ...
    @property
    def consumers(self) -> int: ...  # warpgroups that multiply
    @property
    def rows(self) -> int: ...  # of a tile's sums
    @property
    def steps(self) -> int: ...  # instructions of a tile
    @property
    def pairs(self) -> int: ...  # of cells that a tile looks at
    @property
    def strips(self) -> int: ...  # rows of tiles, which a consumer has to itself
    @property
    def across(self) -> int: ...  # tiles of a strip
    @property
    def blocks(self) -> int: ...
    @property
    def channel_tiles(self) -> int: ...


def cost(plan: Costed) -> float:
    strips = ceil_div(plan.strips * plan.channel_tiles, plan.blocks * plan.consumers) * plan.consumers
    issued = strips * plan.across * _tile(plan)
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 6) + START


def _tile(plan: Costed) -> float:
    """Consumers wait for no turn, and share what multiplies."""
    config, problem = plan.config, plan.problem
    products = plan.steps * max(4 * plan.rows, 20) + BEGUN
    of_each = 1 + of_activation(problem) / 8 + OF_OFFSET * problem.quantization.x_zero_point
    made = config.windows * (POOLED + OUTPUTS * of_each)
    alone = (products + WRITE + made) / plan.consumers
    return at_once(max(alone, of_cells(plan.pairs, config.team)), products + made, 3)
