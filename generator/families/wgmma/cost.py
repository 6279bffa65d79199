"""What the `wgmma` family costs: fitted to 249 kernels of 29 layers of the suite `dense` that an H200 timed, 10 % off
(root mean square)."""

from __future__ import annotations

from qconv.generator.cost_units import MEMORY, at_once, moved_bytes, of_activation, of_parameters, of_residual
from qconv.generator.families.wgmma.plan import WgmmaPlan
from qconv.generator.plan import ceil_div
from qconv.generator.slabs import SLAB
from qconv.problem.convolution import Conv2d

# Clocks of a launch: its start, until the first slabs come, and its end.
START = 4400
# Clocks that one output pixel of a consumer's 128 channels takes in the epilogue, for 8 instructions an output.
OF_PIXEL = 17.7
# How much longer the instructions of a residual take than others.
OF_RESIDUAL = 1.7
# Clocks of a pixel's 128 channels that lanes store one at a time, by a single consumer. Two are in each other's way:
# each takes four times as long. Without it, 1x1 of 128 to 255 channels was predicted at 30 us and took 100.
STORED = 20
# Bytes that one clock brings to a multiprocessor: out of shared memory, and from the second-level cache.
SHARED, CACHE = 128, 74
# Clocks until a slab comes that is asked for.
LATENCY = 900
# Output pixels of a consumer whose residuals it waits for together, where it reads them in device memory.
WAITED_FOR = 4
# A slab of fewer than 128 channels takes almost as long as a whole one: by this power of how many times fewer.
SHORT = 0.86
# What two slabs of distance between two consumers hide of every epilogue but the last, and what each of them delays
# the end by.
HIDDEN, DELAYED = 0.25, 0.5


def cost(plan: WgmmaPlan) -> float:
    channels, pixels = plan.tile
    of_consumer = channels * pixels // (128 * plan.consumers)
    slab = _slab(plan, of_consumer)
    epilogue = written(plan.problem, of_consumer)
    if plan.vector_k == 1:
        epilogue += of_consumer * STORED * plan.consumers**2 * min(1.0, plan.problem.k / 128)
    if plan.waits_for_residuals:
        epilogue += of_consumer / WAITED_FOR * LATENCY
    rounds = ceil_div(plan.tiles, plan.target.processors)
    issued = rounds * (plan.slabs * slab + epilogue)
    issued += plan.lag * DELAYED * slab - (rounds - 1) * min(plan.lag, 2) / 2 * HIDDEN * epilogue
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / MEMORY, 3) + START


def _slab(plan: WgmmaPlan, of_consumer: int) -> float:
    # Two instructions of 64 channels for each of four runs of 32 bytes: half a clock a pixel, or what they read.
    multiplied = 8 * plan.consumers * max(of_consumer / 2, (2048 + 32 * of_consumer) / SHARED)
    # On average of the slabs of a tap, the last of which may be short.
    whole = ceil_div(plan.problem.c, SLAB) * SLAB
    multiplied *= (whole - SLAB + plan.last_slab) / whole
    # A slot is not free before the products of the next slab are under way.
    return at_once(multiplied, fetched(plan.problem, sum(plan.tile), plan.slots), 8)


def written(problem: Conv2d, pixels: float) -> float:
    """Clocks until a warpgroup has written so many pixels of 128 channels, without what it waits for."""
    instructions = 8 + of_activation(problem) + of_parameters(problem) + OF_RESIDUAL * of_residual(problem)
    return pixels * OF_PIXEL * instructions / 8


def fetched(problem: Conv2d, rows: int, slots: int, slab: int = 128) -> float:
    """Clocks until a slab comes of so many pixels and channels, where one slot of so many is multiplied."""
    clocks = slab * rows / CACHE
    whole, rest = divmod(problem.c, slab)
    if rest:
        clocks *= (whole + (slab / rest) ** SHORT) / (whole + 1)
    return max(clocks, (LATENCY + clocks) / (slots - 1))
