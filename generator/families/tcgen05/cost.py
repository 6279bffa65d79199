"""Cost model of the `tcgen05` family, not fitted: no GPU has run it. The rate of the tensor cores is from the data
sheet (4.5 POPS of dense int8 on a B200); everything else is taken from `wgmma` on an H200."""

from __future__ import annotations

from qconv.generator.cost_units import MEMORY, at_once
from qconv.generator.families.tcgen05.plan import Tcgen05Plan
from qconv.generator.families.wgmma.cost import LATENCY, SHARED, START, fetched, written
from qconv.generator.plan import ceil_div

# Products of bytes per clock and multiprocessor: 4.5e15 operations per second, 148 multiprocessors, 1.85 GHz.
PRODUCTS = 8192
# Exposed clocks per slab. An assumption, so that among configs with the same bytes the longer slab wins.
OF_SLAB = 8
# Speed-up of the epilogue from a second warpgroup. The warps of a single one are stalled half of the time.
OF_TWO = 1.8


def cost(plan: Tcgen05Plan) -> float:
    multiplied, written = plan.slabs * _slab(plan), _epilogue(plan)
    rounds = ceil_div(plan.tiles, plan.target.processors)
    # A pipeline of two stages: the longer one counts in every round, the shorter one once.
    issued = rounds * max(multiplied, written) + min(multiplied, written)
    return at_once(issued, plan.problem.io_bytes / plan.target.processors / MEMORY, 3) + START


def _epilogue(plan: Tcgen05Plan) -> float:
    config = plan.config
    outputs = config.pixels * config.channels / 128 / (1 if config.writers == 1 else OF_TWO)
    clocks = written(plan.problem, outputs)
    if plan.problem.quantization.residual != "none":
        clocks += config.strips / config.writers * LATENCY
    return clocks


def _slab(plan: Tcgen05Plan) -> float:
    config = plan.config
    # Per 128 pixels and 32 bytes of the reduction: clocks of the multiplication, and of reading its operands.
    rate, read = 128 * config.channels * 32 / PRODUCTS, (128 + config.channels) * 32 / SHARED
    multiplied = config.pixels // 128 * (config.slab // 32) * max(rate, read)
    # A slot is free once the products of its slab are complete.
    came = fetched(plan.problem, config.pixels + config.channels, config.slots, config.slab)
    return at_once(multiplied, came, 8) + OF_SLAB
