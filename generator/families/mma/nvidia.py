"""Cost model of the `mma` family on NVIDIA: fitted to 74 kernels and 52 pairs of kernels timed on an H200, with a root
mean square error of 14 %."""

from __future__ import annotations

from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.cost_units import at_once, launched, of_activation, of_parameters, of_residual
from qconv.generator.families.mma.config import WORD
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.plan import ceil_div

# Clocks of a multiprocessor: per step of a block that is alone; in addition where it does not prefetch its fragments;
# latency of a step's loads; per output that is sent to another block of the cluster; per launch in which a block waits
# for sums in device memory.
STEP, WAITING, LATENCY, SHARED_OUTPUT, COMBINING = 310, 30, 1115, 0.41, 3000.0
# Clocks per output of a tile that stream-k divides among blocks, which add up their sums in device memory. Without it,
# such tiles of a 3x3 layer with 64 channels were predicted at 14 us and took 33 and 38.
STREAMED_OUTPUT = 0.78
# Per clock: products; bytes of shared memory, of L2, and of a load after its latency; instructions of the epilogue.
PRODUCTS, SHARED, CACHE, ARRIVING, INSTRUCTIONS = 2420, 128, 40, 50, 128
# A step that copies at most 32 bytes of each longer row leaves the rest of the cache line to other steps. Without this
# factor, ten such kernels took 1.1 to 4 times the prediction; it is fitted to the five that have no remainder.
SHORT_RUN, SHORT_RUN_FACTOR = 32, 1.5
# Clocks per block for its start and end, in addition to everything else. 1x1 layers of 32 to 32 channels took twice the
# time of their bytes and instructions in tiles of 64 rows, and five times in tiles of 32x8. Fitted to 290 configs of 29
# layers.
BLOCK = 140
# Clocks for a lane's store of a few neighbouring outputs and for its load of residuals, beyond those of 16-byte
# accesses. Each access touches a sector of its own, unless the rows of several pixels share the sector. Without this,
# 1x1 layers whose number of channels is no multiple of 16 took up to 14 times the prediction.
STORE, LOAD, SHARED_SECTOR = 0.9, 0.5, 48
# Factor for a residual's instructions, and latency in clocks of a lane's vector of residuals: no load moves above the
# store before it. With 128 sums per thread, a 1x1 layer of 64 to 256 channels was predicted at 90 us and took 169.
OF_RESIDUAL, RESIDUAL = 2.8, 80
# The most registers that a thread can address.
MOST_REGISTERS = 255


def registers_of(plan: MmaPlan) -> int:
    """Estimate the registers per thread."""
    config, target = plan.config, plan.target
    sum_words = plan.problem.quantization.types.sum.bytes // WORD
    registers = 40 + config.warp_m * config.warp_n * sum_words * 3 // (2 * target.warp_size)
    # loads wait in registers
    if not target.async_copies:
        registers += (config.tile_m + config.tile_n) * config.tile_k // (WORD * plan.shape.threads)
    return registers


def resident(plan: MmaPlan) -> int:
    """Return the resident blocks per multiprocessor, at least 1: a block that needs more registers than exist
    spills."""
    target, threads = plan.target, plan.shape.threads
    of_each = (
        target.registers_per_sm // (min(registers_of(plan), MOST_REGISTERS) * threads),
        target.smem_bytes_per_sm // (plan.smem_bytes + 1024),
        target.threads_per_sm // threads,
    )
    return max(1, min(of_each))


def cost(plan: MmaPlan) -> float:
    work = at_once(issued(plan), _narrow_accesses(plan), 2)
    clocks = launched(plan.problem, plan.target, work) + BLOCK * plan.blocks / plan.target.processors
    # Spilling never pays for a default. A search may find an exception.
    return clocks * (2 if registers_of(plan) > MOST_REGISTERS else 1)


def _narrow_accesses(plan: MmaPlan) -> float:
    """Return the clocks of a multiprocessor for stores of fewer than 16 bytes and for loads of residuals, which are
    never staged."""
    problem, y_bytes = plan.problem, ELEMENT_TYPES[plan.problem.quantization.out_type].bytes
    residual = problem.quantization.types.residual
    accessed = ([] if plan.config.staged else [(STORE, y_bytes)]) + (
        [] if residual is None else [(LOAD, residual.bytes)]
    )
    outputs = problem.pixels * problem.k / plan.target.processors
    return outputs * sum(
        clocks * (1 / plan.vector_n - size / 16) * min(1.0, problem.k_group * size / SHARED_SECTOR)
        for clocks, size in accessed
    )


def issued(plan: MmaPlan) -> float:
    """Return the clocks of a multiprocessor for the instructions and for their stalls."""
    config, problem, target = plan.config, plan.problem, plan.target
    steps, tiles, blocks = plan.shape.steps, plan.shape.tiles, plan.blocks
    per_sm = min(resident(plan), ceil_div(blocks, target.processors))
    step = _step(plan, per_sm)
    outputs = config.tile_m * config.tile_n
    epilogue = _epilogue(plan) + (_waits(plan) / per_sm if of_residual(problem) else 0)
    rounds: float = ceil_div(blocks, per_sm * target.processors)
    of_block = steps * tiles / blocks
    if config.split_last_wave:
        rounds, of_block = tiles // (per_sm * target.processors) + 1 / config.split, steps
    clocks = rounds * (of_block * step + max(1.0, tiles / blocks) * per_sm * epilogue)
    if config.stream_k:
        clocks += STREAMED_OUTPUT * outputs
    if plan.combine != "none":
        clocks += SHARED_OUTPUT * per_sm * outputs if plan.combine == "cluster" else COMBINING
    return clocks


def _epilogue(plan: MmaPlan) -> float:
    """Return the clocks of a tile's epilogue instructions."""
    problem, outputs = plan.problem, plan.config.tile_m * plan.config.tile_n
    added = OF_RESIDUAL * of_residual(problem)
    return outputs * (8 + of_activation(problem) + of_parameters(problem) + added) / INSTRUCTIONS


def _waits(plan: MmaPlan) -> float:
    """Return the clocks that a warp waits for its residuals."""
    config = plan.config
    return RESIDUAL * config.warp_m * config.warp_n / plan.target.warp_size / plan.vector_n


def _step(plan: MmaPlan, per_sm: int) -> float:
    """Return the clocks per step of `per_sm` blocks: the time of the busiest unit, or of the prefetches where these
    take longer."""
    config, problem, shape = plan.config, plan.problem, plan.shape
    tile_bytes = (config.tile_m + config.tile_n) * config.tile_k
    multiply = config.tile_m * config.tile_n * config.tile_k / PRODUCTS
    shared = (shape.warps * (config.warp_m + config.warp_n) * config.tile_k + tile_bytes) / SHARED
    narrow = 16 / shape.x_bytes
    fetch = tile_bytes / CACHE * max(1.0, narrow / 4)
    exposed = (STEP if config.prefetch_fragments else STEP + WAITING) / per_sm
    arrives = (LATENCY + tile_bytes / ARRIVING) / (config.pipeline_stages - 1)
    clocks = at_once(per_sm * max(multiply, shared, fetch) + exposed, arrives, 4)
    of_x = problem.quantization.types.x.bytes
    short = min(config.tile_k, problem.c_group * of_x) <= SHORT_RUN < problem.c * of_x and shape.x_bytes == 16
    return clocks * SHORT_RUN_FACTOR if short else clocks
