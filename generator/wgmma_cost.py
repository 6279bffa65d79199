"""What the `wgmma` family costs, fitted to what the fourth program of docs/hopper took on an H200: ten layers, each
in the tile that was its best (bench/results/nvidia-h200/hopper.json)."""

from __future__ import annotations

from typing import Protocol

from qconv.generator.cost_units import MEMORY, at_once, of_activation
from qconv.generator.plan import ceil_div
from qconv.problem import Conv2d
from qconv.target import Target

# Clocks of a launch: its start, until the first slabs come, and its end.
START = 5300
# Clocks that one output pixel of a consumer's 128 channels takes in the epilogue, for 8 instructions an output.
OF_PIXEL = 9
# Bytes that one clock brings to a multiprocessor: out of shared memory, and from the second-level cache.
SHARED, CACHE = 128, 72
# Clocks until a slab comes that is asked for.
LATENCY = 1100


class Costed(Protocol):
    """What the model reads of a plan."""

    @property
    def problem(self) -> Conv2d: ...
    @property
    def target(self) -> Target: ...
    @property
    def tile(self) -> tuple[int, int]: ...  # output channels and pixels of a block's tile
    @property
    def consumers(self) -> int: ...
    @property
    def stages(self) -> int: ...  # slabs that may be under way
    @property
    def lag(self) -> int: ...
    @property
    def slabs(self) -> int: ...
    @property
    def tiles(self) -> int: ...


def cost(plan: Costed) -> float:
    channels, pixels = plan.tile
    of_consumer = channels * pixels // (128 * plan.consumers)
    # Two instructions of 64 channels for each of four runs of 32 bytes: half a clock a pixel, or what they read.
    multiplied = 8 * plan.consumers * max(of_consumer / 2, (2048 + 32 * of_consumer) / SHARED)
    slab_bytes = 128 * (channels + pixels)
    fetched = max(slab_bytes / CACHE, (LATENCY + slab_bytes / CACHE) / plan.stages)
    slab = at_once(multiplied, fetched, 8)
    epilogue = of_consumer * OF_PIXEL * (8 + of_activation(plan.problem)) / 8
    # A consumer that is behind multiplies while the other one stores.
    epilogue *= 1.0 if plan.consumers == 1 or not plan.lag else 0.95
    rounds = ceil_div(plan.tiles, plan.target.processors)
    issued = rounds * (plan.slabs * slab + epilogue)
    return at_once(issued, plan.problem.io_bytes / plan.target.processors / MEMORY, 3) + START
