"""Cost model of the `wgmma` family: fitted to 249 kernels of 29 layers of the suite `dense`, timed on an H200, with a
root mean square error of 10 %."""

from __future__ import annotations

from qconv.generator.cost_units import MEMORY, at_once, moved_bytes, of_activation, of_parameters, of_residual
from qconv.generator.families.wgmma.plan import WgmmaPlan
from qconv.generator.plan import ceil_div
from qconv.generator.slabs import SLAB
from qconv.problem.convolution import Conv2d

# Clocks per launch: its start, the latency of the first slabs, and its end.
START = 4400
# Clocks per output pixel of a consumer's 128 channels in an epilogue of 8 instructions per output.
OF_PIXEL = 17.7
# Factor for a residual's instructions.
OF_RESIDUAL = 1.7
# Clocks per pixel of 128 channels that lanes store one at a time, with a single consumer. With two, each takes four
# times as long. Without this, 1x1 layers of 128 to 255 channels were predicted at 30 us and took 100.
STORED = 20
# Bytes per clock and multiprocessor: of shared memory, and of L2.
SHARED, CACHE = 128, 74
# Clocks from the request for a slab until it arrives.
LATENCY = 900
# Output pixels whose residuals a consumer loads together, where it reads them from device memory.
WAITED_FOR = 4
# The fetch of a short last slab, of n < 128 channels, counts as (128 / n) ** SHORT whole ones.
SHORT = 0.86
# Fraction of every epilogue but the last that a lag of two slabs between the consumers hides, and delay of the end per
# slab of lag.
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
    # Two instructions of 64 channels per 32 bytes, four times per slab: half a clock per pixel, or the time to read the
    # operands.
    multiplied = 8 * plan.consumers * max(of_consumer / 2, (2048 + 32 * of_consumer) / SHARED)
    # The average over the slabs of a tap, of which the last may be short.
    whole = ceil_div(plan.problem.c, SLAB) * SLAB
    multiplied *= (whole - SLAB + plan.last_slab) / whole
    # A slot is free once the products of the next slab have been issued.
    return at_once(multiplied, fetched(plan.problem, sum(plan.tile), plan.slots), 8)


def written(problem: Conv2d, pixels: float) -> float:
    """Return the clocks for a warpgroup to write `pixels` pixels of 128 channels, excluding stalls."""
    instructions = 8 + of_activation(problem) + of_parameters(problem) + OF_RESIDUAL * of_residual(problem)
    return pixels * OF_PIXEL * instructions / 8


def fetched(problem: Conv2d, rows: int, slots: int, slab: int = 128) -> float:
    """Return the clocks to fetch one slab of `rows` pixels and channels, when `slots - 1` fetches overlap the
    multiplication."""
    clocks = slab * rows / CACHE
    whole, rest = divmod(problem.c, slab)
    if rest:
        clocks *= (whole + (slab / rest) ** SHORT) / (whole + 1)
    return max(clocks, (LATENCY + clocks) / (slots - 1))
