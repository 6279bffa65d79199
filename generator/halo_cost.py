"""What the `halo` family costs, in clocks: fitted to 1,655 kernels of 73 layers that an H200 timed, 7 % off (root mean
square). All of them stage their outputs: what direct stores take is assumed."""

from __future__ import annotations

from typing import Protocol

from qconv.generator.cost_units import MEMORY, at_once, of_activation, of_residual
from qconv.generator.plan import ceil_div
from qconv.generator.wgmma_cost import SHARED
from qconv.problem import Conv2d
from qconv.target import Target

# Clocks of a launch: its start, until the first window comes, and its end.
START = 4700
# Until the first product of a tile is begun, when the one before has issued its own.
TURN = 65
# Outputs of a tile: what does not depend on their number, and eight pixels of 64 channels.
WRITE, OF_EIGHT = 630, 40
# How much longer outputs take that lanes store, two channels at a time, and not the copy engine.
DIRECT = 2.0
# Bytes of weights that come in a clock, before anything is multiplied.
CACHE = 400
# What the copy engine takes for a row that it fills with zeros behind the channels: of a window, and of the weights.
FILLED_PIXEL, FILLED_WEIGHTS = 5.4, 3.4


class Config(Protocol):
    """What the model reads of a config."""

    @property
    def rows(self) -> int: ...
    @property
    def consumers(self) -> int: ...
    @property
    def channels(self) -> int: ...


class Costed(Protocol):
    """What the model reads of a plan."""

    @property
    def problem(self) -> Conv2d: ...
    @property
    def target(self) -> Target: ...
    @property
    def config(self) -> Config: ...
    @property
    def products(self) -> int: ...  # instructions of a tile
    @property
    def staged(self) -> bool: ...  # whether the copy engine stores outputs
    @property
    def row(self) -> int: ...  # bytes of a pixel in shared memory
    @property
    def window_bytes(self) -> int: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def tiles(self) -> int: ...
    @property
    def blocks(self) -> int: ...


def cost(plan: Costed) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan) + _first(plan)
    return at_once(issued, plan.problem.io_bytes / plan.target.processors / MEMORY, 2.3) + START


def _first(plan: Costed) -> float:
    """Until the weights are there."""
    filled = plan.weight_bytes / plan.row * FILLED_WEIGHTS if plan.problem.c < plan.row else 0
    return plan.weight_bytes / CACHE + filled


def _tile(plan: Costed) -> float:
    """One consumer multiplies at a time; all of them write at once."""
    config = plan.config
    pixels = 8 * config.rows
    # An instruction of 64 channels: what it multiplies, or what it reads of shared memory.
    product = at_once(pixels / 2, (64 * 32 + 32 * pixels) / SHARED, 7)
    multiplied = plan.products * product + TURN
    turn = max(multiplied, (multiplied + _outputs(plan)) / config.consumers)
    return max(turn, plan.window_bytes / plan.row * FILLED_PIXEL) if plan.problem.c < plan.row else turn


def _outputs(plan: Costed) -> float:
    config, problem = plan.config, plan.problem
    clocks = OF_EIGHT * config.rows * config.channels / 64
    clocks *= (8 + of_activation(problem) + of_residual(problem)) / 8
    return WRITE + clocks * (1 if plan.staged else DIRECT)
