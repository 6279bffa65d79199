"""What the `tcgen05` family costs. Not measured: nobody has run it on a GPU. The rate of the tensor cores is the data
sheet's (a B200 multiplies bytes at 4.5 POPS dense), and all else is what an H200 takes for the same in `wgmma`."""

from __future__ import annotations

from qconv.generator.cost_units import MEMORY, at_once
from qconv.generator.families.tcgen05.plan import Tcgen05Plan
from qconv.generator.families.wgmma.cost import LATENCY, SHARED, START, fetched, written
from qconv.generator.plan import ceil_div

# Products of bytes that a multiprocessor makes in a clock: 4.5e15 operations of 148 multiprocessors at 1.85 GHz.
PRODUCTS = 8192
# Clocks of a slab that nothing hides: assumed, so that of configs with the same bytes the longer slab is chosen.
OF_SLAB = 8
# How much sooner two warpgroups write a tile than one, whose warps wait for themselves half of the time.
OF_TWO = 1.8


def cost(plan: Tcgen05Plan) -> float:
    multiplied, written = plan.slabs * _slab(plan), _epilogue(plan)
    rounds = ceil_div(plan.tiles, plan.target.processors)
    # Two stages: the longer one in every round, and the shorter before the first or behind the last.
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
    # For each 128 pixels and 32 bytes of the reduction: what is multiplied, or what is read for it.
    rate, read = 128 * config.channels * 32 / PRODUCTS, (128 + config.channels) * 32 / SHARED
    multiplied = config.pixels // 128 * (config.slab // 32) * max(rate, read)
    # A slot is not free before the products of its slab are made.
    came = fetched(plan.problem, config.pixels + config.channels, config.slots, config.slab)
    return at_once(multiplied, came, 8) + OF_SLAB
