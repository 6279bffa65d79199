"""What the cost models of layers have in common: what a tile takes, in clocks, and what that was fitted to.

The config of one layer of a kernel of several: its part of a tile, the subtile of a warp, a warpgroup or a thread,
which subtiles are allowed, and where inputs and weights lie in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from qconv.errors import Infeasible
from qconv.generator.atom import Atom
from qconv.generator.convolution import input_span
from qconv.generator.plan import Config, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction_tables import WGMMA_M64K32
from qconv.targets.target import Target

# Fitted with the rest of the model (see `fused.cost`): clocks of an instruction of a warp that is alone, where many
# warps take one.
ALONE = 4


class Work(NamedTuple):
    """What one tile takes, in clocks."""

    issued: float  # in which a multiprocessor issues the instructions of all warps
    longest: float  # until the longest warp is done


@lru_cache(maxsize=1024)
def times_asked(pixels: int, width: int, row: int, column_stride: int) -> float:
    """How often shared memory is asked for eight neighbouring pixels of a tile, which may share banks."""
    banks = [(pixel // width * row + pixel % width * column_stride) % 8 for pixel in range(pixels // 8 * 8)]
    eights = [banks[i : i + 8] for i in range(0, len(banks), 8)]
    return sum(max(map(eight.count, eight)) for eight in eights) / len(eights) if eights else 1.0


RUN_PIXELS = WGMMA_M64K32.m  # of a warpgroup's instruction
MBARRIER_BYTES = 16  # of an mbarrier, aligned as what lies beside it


@dataclass(frozen=True)
class LayerConfig(Config):
    """What a layer computes of a tile, and the subtile that a warp or a thread has at a time."""

    family: ClassVar[str] = "layer"
    layer: str  # first, second or third
    last: bool  # its outputs go to device memory
    rows: int
    columns: int
    blocks: int  # that have some of its output channels each
    on_wgmma: bool  # whether warpgroups multiply it
    m: int  # atoms of pixels of a warp; rows of pixels of a thread
    n: int  # atoms of channels of a warp, or of a warpgroup; fours of channels of a thread
    ring_warpgroups: int = 0  # warpgroups that the weights reach through a ring, slab after slab; 0: there is no ring
    slice_k: int = 0  # channels that the layer before gives a block, which are all that it looks at; 0: all channels

    @property
    def pixels(self) -> int:
        return self.rows * self.columns


class Border(NamedTuple):
    """What the next layer looks at of a layer's outputs, those of a tile and what lies around them."""

    rows: int
    columns: int
    top: int  # rows of padding before the first that is computed
    left: int
    varies: bool  # other tiles have padding elsewhere, which is computed and written over


def chunks(channels: int) -> int:
    """Chunks of 16 bytes that a pixel takes in shared memory."""
    return ceil_div(channels, 16)


def plane(pixels: int) -> int:
    """Pixels of a chunk in shared memory, with padding that puts neighbouring chunks on different banks."""
    return (pixels + 6) // 8 * 8 + 1


def is_depthwise(problem: Conv2d) -> bool:
    """Whether dot products over taps serve it; matrix instructions serve every other."""
    return problem.c_group == 1 and problem.k_group == 1 and problem.groups > 1 and problem.c % 4 == 0


def atom_of(problem: Conv2d, target: Target) -> Atom | None:
    """The smallest matrix instruction that multiplies these types: tiles are small."""
    t = problem.quantization.types
    atoms = [Atom(i) for i in target.instructions if i.serves(t.x, t.w)]
    return min(atoms, key=lambda atom: atom.pixels * atom.channels, default=None)


def fits_wgmma(problem: Conv2d, target: Target) -> bool:
    """Whether warpgroups may multiply it: outputs look at all channels, and there are more than half of an atom's."""
    q, instruction = problem.quantization, target.warpgroup
    if instruction is None or not instruction.serves(q.types.x, q.types.w):
        return False
    return problem.groups == 1 and not q.w_zero_point and problem.k > 4


def row_pixels(problem: Conv2d, width: int) -> int:
    """Pixels of a row of a tile's input in shared memory, with gaps, for a row of `width` outputs. What neighbouring
    outputs look at are neighbours, which lie on different banks and which warpgroups ask for: where the stride is 2,
    the even columns lie before the odd ones."""
    across = problem.stride[1]
    return ceil_div(input_span(problem, 1, width)[1], across) * across


def _is_useful(channels: int, side: int) -> bool:
    """Whether fewer channels that do not exist are computed than by subtiles of a power of two, of this size about."""
    powers = (1 << side.bit_length() >> 1, 1 << side.bit_length())
    return ceil_div(channels, side) * side < min(ceil_div(channels, power) * power for power in powers)


def is_subtile(problem: Conv2d, on_wgmma: bool, m: int, n: int, target: Target) -> bool:
    """Whether a warp, a warpgroup or a thread may have so much at a time: neither so little that it waits, where there
    is more, nor more than its registers hold."""
    if is_depthwise(problem):
        return n <= 2
    atom = atom_of(problem, target)
    if atom is None or (n & (n - 1) and not _is_useful(problem.k, 8 * n if on_wgmma else n * atom.channels)):
        return False
    if on_wgmma:
        return fits_wgmma(problem, target) and (n >= 4 or 8 * n >= problem.k > 4 * n)
    return (m * n >= 4 or n * atom.channels >= problem.k) and m * n <= 16


def fetches(config: LayerConfig, target: Target) -> bool:
    """Whether weights come to shared memory in bulk. The first layer's are waited for at once: copies by all threads
    bring them sooner."""
    return config.last and target.bulk_copies


def ring(config: LayerConfig, runs: int, slabs: int, block_slabs: int) -> tuple[int, int]:
    """How many warpgroups have a slab together, and buffers for slabs. One is multiplied, others are on their way; of a
    buffer, the same warpgroups have all slabs, so that none misses one."""
    if not config.ring_warpgroups:
        return 0, 0
    of_slab = max(n for n in (1, 2, 4) if n <= min(runs, config.ring_warpgroups))
    at_once = config.ring_warpgroups // of_slab
    buffers = max(
        (n for n in (2, 3, 4) if n % at_once == 0 and n < block_slabs and n <= max(3, 2 * at_once)), default=0
    )
    if not buffers or slabs % block_slabs:
        raise Infeasible(
            f"weights_in_smem=0: {at_once} slabs of the {config.layer} convolution are multiplied at a time; for a "
            f"ring there must be more, as many for each of {config.blocks} blocks (there are {slabs}); "
            "weights_in_smem=1, or on_wgmma=0, serves it"
        )
    return of_slab, buffers


def ring_bytes(buffers: int) -> int:
    """Bytes of the mbarriers of a ring's buffers, and of the counters of who has used each."""
    return 16 * ceil_div(12 * buffers, 16)
