"""Cost model of the `mma` family on AMD. Derived from code objects (bench/amd_static.py); no AMD GPU has timed it."""

from __future__ import annotations

from typing import NamedTuple

from qconv.generator.cost_units import LAUNCH, at_once
from qconv.generator.families.mma.config import WORD
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.plan import ceil_div

# Instructions: per step, other than products and memory accesses; per finished tile; per output; per output that is
# added to other blocks' sums.
STEP, TILE, OUTPUT, SHARED_OUTPUT = 65, 90, 7, 8
# Clocks per step that a lone wave waits for shared memory, by `prefetch_fragments`; latency of device memory in clocks.
EXPOSED, LATENCY = (380, 100), 1000
# Bytes per clock: of shared memory; of the L2 cache; of a load after its latency; and of device memory, by warp size,
# from the data sheets of CDNA (64) and RDNA (32).
SHARED, CACHE, ARRIVING, MEMORY = 128, 64, 50, {64: 8, 32: 4}
# Scale of these clocks against those of other families, whose models are fitted to another GPU. With it, matrix
# instructions win for about the same problems as in that GPU's model.
MEASURE = 0.4
# Clocks per launch in which a block waits for the sums of others.
COMBINING = 3000


class Loop(NamedTuple):
    """Instructions of one wave per step."""

    matrix: int
    others: int

    @property
    def share(self) -> float:
        return self.matrix / (self.matrix + self.others)


def loop_of(plan: MmaPlan) -> Loop:
    config, shape = plan.config, plan.shape
    atom = shape.atom
    atoms_m, atoms_n = config.warp_m // atom.pixels, config.warp_n // atom.channels
    reads = (atoms_m + atoms_n) * (config.tile_k // atom.block_k)
    # A thread stores to shared memory all that it loads.
    carried = 2 * (shape.x_vectors + shape.w_vectors)
    return Loop(atoms_m * atoms_n * config.tile_k // atom.instruction.k, STEP + reads + carried)


def registers_of(plan: MmaPlan) -> int:
    """Estimate the registers per lane: its sums, the vectors on their way to shared memory, and the fragments that
    compilers read ahead (those of a whole step with wave32). With wave64, a persistent block finishes a tile while it
    holds the sums of the next."""
    config, target, shape = plan.config, plan.target, plan.shape
    atom = shape.atom
    fragment = 4 * (config.warp_m // atom.pixels + config.warp_n // atom.channels)
    blocks = config.tile_k // atom.block_k if target.warp_size == 32 else 1 + config.prefetch_fragments
    finished = 30 if config.persist and target.warp_size == 64 else 0
    carried = 4 * (shape.x_vectors + shape.w_vectors)
    sum_words = plan.problem.quantization.types.sum.bytes // WORD
    return config.warp_m * config.warp_n * sum_words // target.warp_size + carried + blocks * fragment + finished + 40


def resident(plan: MmaPlan) -> int:
    """Return the resident blocks per compute unit, at least 1: a block that needs more registers than exist spills."""
    most = min(registers_of(plan), plan.target.registers_per_thread)
    return max(1, plan.target.blocks_per_sm(plan.shape.threads, plan.smem_bytes, most))


def cost(plan: MmaPlan) -> float:
    target = plan.target
    memory = plan.problem.io_bytes / target.processors / MEMORY[target.warp_size]
    # A block that is alone on its compute unit does not overlap the writing of its tile with multiplication.
    clocks = at_once(issued(plan), memory, 3 if resident(plan) > 1 else 1)
    spills = registers_of(plan) > target.registers_per_thread - 16
    return MEASURE * clocks * (2 if spills else 1) + LAUNCH


def issued(plan: MmaPlan) -> float:
    """Return the clocks of a compute unit for the instructions and for their stalls."""
    config, target = plan.config, plan.target
    steps, tiles, blocks, waves = plan.shape.steps, plan.shape.tiles, plan.blocks, plan.shape.warps
    per_sm = min(resident(plan), ceil_div(blocks, target.processors))
    step = _step(plan, per_sm)
    outputs = config.warp_m * config.warp_n // target.warp_size
    combines = plan.combine != "none"
    instructions = TILE + outputs * (OUTPUT + SHARED_OUTPUT * combines)
    epilogue = _clocks(plan) * instructions * ceil_div(waves * per_sm, target.simds)
    rounds: float = ceil_div(blocks, per_sm * target.processors)
    of_block = steps * tiles / blocks
    if config.split_last_wave:
        rounds, of_block = tiles // (per_sm * target.processors) + 1 / config.split, steps
    # The latency of a tile's first step is exposed, except where other blocks multiply meanwhile or the block finishes
    # its previous tile.
    of_tile = epilogue + (0 if config.persist else _arrives(plan) / per_sm)
    return rounds * (of_block * step + max(1.0, tiles / blocks) * of_tile) + COMBINING * combines


def _step(plan: MmaPlan, per_sm: int) -> float:
    """Return the clocks per step of `per_sm` blocks: the time of the busiest unit, or of the loads where these take
    longer."""
    config, target, shape = plan.config, plan.target, plan.shape
    waves, loop = shape.warps, loop_of(plan)
    multiply = waves * loop.matrix * shape.atom.instruction.clocks / target.simds
    shared = (waves * (config.warp_m + config.warp_n) * config.tile_k + _tile_bytes(plan)) / SHARED
    narrow = max(1.0, WORD / min(shape.x_bytes, shape.w_bytes))
    busy = per_sm * max(multiply, shared, _tile_bytes(plan) / CACHE * narrow)
    alone = EXPOSED[config.prefetch_fragments] + _clocks(plan) * loop.others * ceil_div(waves, target.simds)
    return at_once(busy + alone / per_sm, _arrives(plan), 4)


def _arrives(plan: MmaPlan) -> float:
    """Return the clocks until the loads of a step complete."""
    return LATENCY + _tile_bytes(plan) / ARRIVING


def _tile_bytes(plan: MmaPlan) -> int:
    """Return the bytes that a block loads per step."""
    return (plan.config.tile_m + plan.config.tile_n) * plan.config.tile_k


def _clocks(plan: MmaPlan) -> int:
    """Return the clocks for which one vector instruction of a wave occupies its SIMD."""
    return 4 if plan.target.warp_size == 64 else 1
