"""What the `mma` family costs on NVIDIA: fitted to 74 kernels that an H200 timed and to 52 pairs of them, 14 % off
(root mean square)."""

from __future__ import annotations

from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.cost_units import at_once, launched, of_activation, of_parameters, of_residual
from qconv.generator.families.mma.config import WORD
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.plan import ceil_div

# Clocks of a multiprocessor: for a step of a block that is alone, and beside them where it waits for its fragments;
# until a step's bytes come; for an output that goes to other blocks of a cluster; for a launch in which a block waits
# for sums in device memory.
STEP, WAITING, LATENCY, SHARED_OUTPUT, COMBINING = 310, 30, 1115, 0.41, 3000.0
# Clocks for an output of a tile whose steps several blocks share (stream-k), which add up their sums in device memory.
# Without it, 3x3 of 64 channels was predicted at 14 us in such tiles, and took 33 and 38.
STREAMED_OUTPUT = 0.78
# What one clock brings: products; bytes of shared memory, of the second-level cache, and of those that come once they
# begin to; instructions of the epilogue.
PRODUCTS, SHARED, CACHE, ARRIVING, INSTRUCTIONS = 2420, 128, 40, 50, 128
# A step that copies 32 bytes or less of each longer row leaves the rest of a cache line to other steps. Ten such
# kernels took 1.1 to 4 times the prediction without this factor, which is fitted to the five without a remainder.
SHORT_RUN, SHORT_RUN_FACTOR = 32, 1.5
# Clocks for which a multiprocessor begins and ends a block, beside all others: 1x1 of 32 to 32 channels in tiles of 64
# rows took twice what bytes and instructions say, in tiles of 32x8 five times. Fitted to 290 configs of 29 layers.
BLOCK = 140
# Clocks for a lane's store of some neighbouring outputs, and for its load of residuals, beside what stores and loads of
# sixteen take: each goes to a sector of its own, unless the rows of several pixels share it. Without this, 1x1 layers
# whose channels no sixteen divides took up to 14 times the prediction.
STORE, LOAD, SHARED_SECTOR = 0.9, 0.5, 48
# How much longer the instructions of a residual take than others, and clocks until a lane has some neighbours of it:
# no load moves ahead of the store before. With 128 sums of a thread, 1x1 of 64 to 256 channels was predicted at 90 us
# and took 169.
OF_RESIDUAL, RESIDUAL = 2.8, 80
# A thread can address no more.
MOST_REGISTERS = 255


def registers_of(plan: MmaPlan) -> int:
    """About how many a thread takes."""
    config, target = plan.config, plan.target
    sum_words = plan.problem.quantization.types.sum.bytes // WORD
    registers = 40 + config.warp_m * config.warp_n * sum_words * 3 // (2 * target.warp_size)
    if not target.async_copies:  # what is fetched waits in registers
        registers += (config.tile_m + config.tile_n) * config.tile_k // (WORD * plan.shape.threads)
    return registers


def resident(plan: MmaPlan) -> int:
    """Blocks that a multiprocessor has room for; one has, where the compiler spills."""
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
    # What a default spills is never worth it; a search may find otherwise.
    return clocks * (2 if registers_of(plan) > MOST_REGISTERS else 1)


def _narrow_accesses(plan: MmaPlan) -> float:
    """What stores of fewer bytes than 16 take, of a multiprocessor, and loads of residuals, which are never staged."""
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
    """Clocks of a multiprocessor for the instructions, and for what they wait for."""
    config, problem, target = plan.config, plan.problem, plan.target
    steps, tiles, blocks = plan.shape.steps, plan.shape.tiles, plan.blocks
    held = min(resident(plan), ceil_div(blocks, target.processors))
    step = _step(plan, held)
    outputs = config.tile_m * config.tile_n
    epilogue = _epilogue(plan) + (_waits(plan) / held if of_residual(problem) else 0)
    rounds: float = ceil_div(blocks, held * target.processors)
    of_block = steps * tiles / blocks
    if config.split_last_wave:
        rounds, of_block = tiles // (held * target.processors) + 1 / config.split, steps
    clocks = rounds * (of_block * step + max(1.0, tiles / blocks) * held * epilogue)
    if config.stream_k:
        clocks += STREAMED_OUTPUT * outputs
    if plan.combine != "none":
        clocks += SHARED_OUTPUT * held * outputs if plan.combine == "cluster" else COMBINING
    return clocks


def _epilogue(plan: MmaPlan) -> float:
    """Clocks for the instructions of a tile's outputs."""
    problem, outputs = plan.problem, plan.config.tile_m * plan.config.tile_n
    added = OF_RESIDUAL * of_residual(problem)
    return outputs * (8 + of_activation(problem) + of_parameters(problem) + added) / INSTRUCTIONS


def _waits(plan: MmaPlan) -> float:
    """Clocks for which a warp waits for the residuals of its outputs."""
    config = plan.config
    return RESIDUAL * config.warp_m * config.warp_n / plan.target.warp_size / plan.vector_n


def _step(plan: MmaPlan, held: int) -> float:
    """What the busiest unit needs for a step of each block, or until the prefetched bytes come."""
    config, problem, shape = plan.config, plan.problem, plan.shape
    tile_bytes = (config.tile_m + config.tile_n) * config.tile_k
    multiply = config.tile_m * config.tile_n * config.tile_k / PRODUCTS
    shared = (shape.warps * (config.warp_m + config.warp_n) * config.tile_k + tile_bytes) / SHARED
    narrow = 16 / shape.x_bytes
    fetch = tile_bytes / CACHE * max(1.0, narrow / 4)
    exposed = (STEP if config.prefetch_fragments else STEP + WAITING) / held
    arrives = (LATENCY + tile_bytes / ARRIVING) / (config.pipeline_stages - 1)
    clocks = at_once(held * max(multiply, shared, fetch) + exposed, arrives, 4)
    of_x = problem.quantization.types.x.bytes
    short = min(config.tile_k, problem.c_group * of_x) <= SHORT_RUN < problem.c * of_x and shape.x_bytes == 16
    return clocks * SHORT_RUN_FACTOR if short else clocks
