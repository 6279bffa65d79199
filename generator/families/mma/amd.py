"""How many blocks share a multiprocessor, from what each of them takes.

What the `mma` family costs on AMD, from what code objects hold (bench/amd_static.py): no AMD GPU has timed it.
"""

from __future__ import annotations

from typing import NamedTuple

from qconv.generator.cost_units import LAUNCH, at_once
from qconv.generator.families.mma.config import WORD
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.plan import ceil_div
from qconv.targets.target import Target


def blocks_per_sm(target: Target, threads: int, smem_bytes: int, registers: int) -> int:
    """`registers`: of a thread. 0 where one block takes more than there is."""
    allocated = -(-registers // target.register_granule) * target.register_granule
    warps = target.simds * (target.registers_per_sm // target.simds // (allocated * target.warp_size))
    return min(
        warps * target.warp_size // threads,
        target.smem_bytes_per_sm // max(1, smem_bytes),
        target.threads_per_sm // threads,
    )


# Instructions of a step that are neither products nor on their way to or from memory, of a tile that is finished, and
# of each of its outputs; of each output that is added to others'.
STEP, TILE, OUTPUT, SHARED_OUTPUT = 65, 90, 7, 8
# Clocks of a step in which a wave alone waits for shared memory, by `prefetch_fragments`; and until device
# memory answers.
EXPOSED, LATENCY = (380, 100), 1000
# Bytes that come in one clock: of shared memory, of the second-level cache, of those that have begun to; and of device
# memory, by the data sheets of CDNA and RDNA.
SHARED, CACHE, ARRIVING, MEMORY = 128, 64, 50, {64: 8, 32: 4}
# What a clock counts beside those of other families, whose models were fitted to another GPU: with it about the same
# problems go to matrix instructions as did by the model of that GPU.
MEASURE = 0.4
# Clocks of a launch in which a block waits for the sums of others.
COMBINING = 3000


class Loop(NamedTuple):
    """Instructions of a wave in one step."""

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
    # What a thread loads it stores to shared memory.
    carried = 2 * (shape.x_vectors + shape.w_vectors)
    return Loop(atoms_m * atoms_n * config.tile_k // atom.instruction.k, STEP + reads + carried)


def registers_of(plan: MmaPlan) -> int:
    """About how many a lane takes: its sums, what it carries to shared memory, and the fragments that compilers read
    ahead, of a whole step where waves are short. Long waves finish a tile beside the sums of the next."""
    config, target, shape = plan.config, plan.target, plan.shape
    atom = shape.atom
    fragment = 4 * (config.warp_m // atom.pixels + config.warp_n // atom.channels)
    blocks = config.tile_k // atom.block_k if target.warp_size == 32 else 1 + config.prefetch_fragments
    finished = 30 if config.persist and target.warp_size == 64 else 0
    carried = 4 * (shape.x_vectors + shape.w_vectors)
    sum_words = plan.problem.quantization.types.sum.bytes // WORD
    return config.warp_m * config.warp_n * sum_words // target.warp_size + carried + blocks * fragment + finished + 40


def resident(plan: MmaPlan) -> int:
    """Blocks that a compute unit has room for; one has, where the compiler spills."""
    most = min(registers_of(plan), plan.target.registers_per_thread)
    return max(1, blocks_per_sm(plan.target, plan.shape.threads, plan.smem_bytes, most))


def cost(plan: MmaPlan) -> float:
    target = plan.target
    memory = plan.problem.io_bytes / target.processors / MEMORY[target.warp_size]
    # A block that is alone on its compute unit writes its tile while nobody multiplies.
    clocks = at_once(issued(plan), memory, 3 if resident(plan) > 1 else 1)
    spills = registers_of(plan) > target.registers_per_thread - 16
    return MEASURE * clocks * (2 if spills else 1) + LAUNCH


def issued(plan: MmaPlan) -> float:
    """Clocks of a compute unit for the instructions, and for what they wait for."""
    config, target = plan.config, plan.target
    steps, tiles, blocks, waves = plan.shape.steps, plan.shape.tiles, plan.blocks, plan.shape.warps
    held = min(resident(plan), ceil_div(blocks, target.processors))
    step = _step(plan, held)
    outputs = config.warp_m * config.warp_n // target.warp_size
    combines = plan.combine != "none"
    instructions = TILE + outputs * (OUTPUT + SHARED_OUTPUT * combines)
    epilogue = _clocks(plan) * instructions * ceil_div(waves * held, target.simds)
    rounds: float = ceil_div(blocks, held * target.processors)
    of_block = steps * tiles / blocks
    if config.split_last_wave:
        rounds, of_block = tiles // (held * target.processors) + 1 / config.split, steps
    # The first step of a tile is waited for, but where other blocks multiply meanwhile or the tile before is finished.
    of_tile = epilogue + (0 if config.persist else _arrives(plan) / held)
    return rounds * (of_block * step + max(1.0, tiles / blocks) * of_tile) + COMBINING * combines


def _step(plan: MmaPlan, held: int) -> float:
    """What the busiest unit needs for a step of each block, or until the bytes come."""
    config, target, shape = plan.config, plan.target, plan.shape
    waves, loop = shape.warps, loop_of(plan)
    multiply = waves * loop.matrix * shape.atom.instruction.clocks / target.simds
    shared = (waves * (config.warp_m + config.warp_n) * config.tile_k + _tile_bytes(plan)) / SHARED
    narrow = max(1.0, WORD / min(shape.x_bytes, shape.w_bytes))
    busy = held * max(multiply, shared, _tile_bytes(plan) / CACHE * narrow)
    alone = EXPOSED[config.prefetch_fragments] + _clocks(plan) * loop.others * ceil_div(waves, target.simds)
    return at_once(busy + alone / held, _arrives(plan), 4)


def _arrives(plan: MmaPlan) -> float:
    """Clocks until the bytes of a step have come."""
    return LATENCY + _tile_bytes(plan) / ARRIVING


def _tile_bytes(plan: MmaPlan) -> int:
    """What a block fetches for a step."""
    return (plan.config.tile_m + plan.config.tile_n) * plan.config.tile_k


def _clocks(plan: MmaPlan) -> int:
    """A SIMD is busy so long with a vector instruction of one wave."""
    return 4 if plan.target.warp_size == 64 else 1
