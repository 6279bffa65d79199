"""What the `stem_wgmma` family costs, in clocks."""

from __future__ import annotations

from typing import Protocol

from qconv.generator.cost_units import at_once, moved_bytes, of_activation
from qconv.generator.plan import ceil_div
from qconv.problem import Conv2d
from qconv.target import Target

START = 4290
STREAM = 21.7
TURN, WRITE, OF_EIGHT = 95, 457, 31.8


class Config(Protocol):
    """What the model reads of a config."""

    @property
    def rows(self) -> int: ...
    @property
    def consumers(self) -> int: ...


class Cells(Protocol):
    @property
    def steps(self) -> int: ...  # instructions of a tile


class Costed(Protocol):
    """What the model reads of a plan."""

    @property
    def problem(self) -> Conv2d: ...
    @property
    def target(self) -> Target: ...
    @property
    def config(self) -> Config: ...
    @property
    def cells(self) -> Cells: ...
    @property
    def tiles(self) -> int: ...
    @property
    def blocks(self) -> int: ...


def cost(plan: Costed) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan)
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 1.62) + START


def _tile(plan: Costed) -> float:
    config = plan.config
    multiplied = plan.cells.steps * max(4 * config.rows, 20) + TURN
    written = WRITE + OF_EIGHT * config.rows * (1 + of_activation(plan.problem) / 8)
    return max(multiplied, (multiplied + written) / config.consumers)
