"""The config of one layer in a kernel of several: its part of a tile, the subtile of a warp, a warpgroup or a thread,
the useful subtiles, and the layout of inputs and weights in shared memory. `Work` is what its cost model predicts."""

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

# Fitted with the rest of the model (see `fused.cost`): clocks per instruction of a single warp; many warps together
# issue one per clock.
ALONE = 4


class Work(NamedTuple):
    """The predicted clocks of a layer for one tile."""

    issued: float  # to issue the instructions of all warps of a block
    longest: float  # until the slowest warp is done


@lru_cache(maxsize=1024)
def times_asked(pixels: int, width: int, row: int, column_stride: int) -> float:
    """Return the mean number of shared memory accesses for eight neighbouring pixels, which may share banks."""
    banks = [(pixel // width * row + pixel % width * column_stride) % 8 for pixel in range(pixels // 8 * 8)]
    eights = [banks[i : i + 8] for i in range(0, len(banks), 8)]
    return sum(max(map(eight.count, eight)) for eight in eights) / len(eights) if eights else 1.0


RUN_PIXELS = WGMMA_M64K32.m  # pixels of a warpgroup's instruction
MBARRIER_BYTES = 16  # an mbarrier, aligned to 16 bytes


@dataclass(frozen=True)
class LayerConfig(Config):
    """A layer's part of a tile, and the subtile of a warp, a warpgroup or a thread."""

    family: ClassVar[str] = "layer"
    layer: str  # first, second or third
    last: bool  # it writes the image
    rows: int
    columns: int
    blocks: int  # blocks that each compute some of its output channels
    on_wgmma: bool  # whether warpgroups multiply it
    m: int  # atoms of pixels per warp; rows of pixels per thread
    n: int  # atoms of channels per warp or warpgroup; groups of four channels per thread
    ring_warpgroups: int = 0  # warpgroups that share a ring of weight slabs; 0: there is no ring
    slice_k: int = 0  # channels of the slice that a block computes in all layers; 0: all channels

    @property
    def pixels(self) -> int:
        return self.rows * self.columns


class Border(NamedTuple):
    """The pixels of an intermediate tensor that the next layer reads: computed ones and the padding around them."""

    rows: int
    columns: int
    top: int  # rows of padding above the computed ones
    left: int
    varies: bool  # tiles differ in where padding is: it is computed, and overwritten


def chunks(channels: int) -> int:
    """Count the chunks of 16 bytes of a pixel in shared memory."""
    return ceil_div(channels, 16)


def plane(pixels: int) -> int:
    """Round up the pixels of a chunk in shared memory, so that neighbouring chunks lie on different banks."""
    return (pixels + 6) // 8 * 8 + 1


def is_depthwise(problem: Conv2d) -> bool:
    """True if dot products over taps compute it; matrix instructions compute every other convolution."""
    return problem.c_group == 1 and problem.k_group == 1 and problem.groups > 1 and problem.c % 4 == 0


def atom_of(problem: Conv2d, target: Target) -> Atom | None:
    """Return the smallest matrix instruction for these types, because tiles are small."""
    t = problem.quantization.types
    atoms = [Atom(i) for i in target.instructions if i.serves(t.x, t.w)]
    return min(atoms, key=lambda atom: atom.pixels * atom.channels, default=None)


def fits_wgmma(problem: Conv2d, target: Target) -> bool:
    """True if warpgroups can multiply it: it has one group, and more than half as many output channels as an atom."""
    q, instruction = problem.quantization, target.warpgroup
    if instruction is None or not instruction.serves(q.types.x, q.types.w):
        return False
    return problem.groups == 1 and not q.w_zero_point and problem.k > 4


def row_pixels(problem: Conv2d, width: int) -> int:
    """Return the pixels of a tile's input row in shared memory, for a row of `width` outputs. With a stride of 2 the
    even columns precede the odd ones, so that pixels which neighbouring outputs read are neighbours: warpgroups need
    that, and they lie on different banks. A gap makes all phases equally long."""
    across = problem.stride[1]
    return ceil_div(input_span(problem, 1, width)[1], across) * across


def _is_useful(channels: int, side: int) -> bool:
    """True if this size pads the channels less than the powers of two below and above it."""
    powers = (1 << side.bit_length() >> 1, 1 << side.bit_length())
    return ceil_div(channels, side) * side < min(ceil_div(channels, power) * power for power in powers)


def is_subtile(problem: Conv2d, on_wgmma: bool, m: int, n: int, target: Target) -> bool:
    """True if a subtile is useful: neither so small that a warp mostly waits, nor too large for its registers."""
    if is_depthwise(problem):
        return n <= 2
    atom = atom_of(problem, target)
    if atom is None or (n & (n - 1) and not _is_useful(problem.k, 8 * n if on_wgmma else n * atom.channels)):
        return False
    if on_wgmma:
        return fits_wgmma(problem, target) and (n >= 4 or 8 * n >= problem.k > 4 * n)
    return (m * n >= 4 or n * atom.channels >= problem.k) and m * n <= 16


def fetches(config: LayerConfig, target: Target) -> bool:
    """True if one thread fetches the weights by bulk copies. Only the last layer's: the first layer's are needed at
    once, and copies by all threads arrive sooner."""
    return config.last and target.bulk_copies


def ring(config: LayerConfig, runs: int, slabs: int, block_slabs: int) -> tuple[int, int]:
    """Return how many warpgroups multiply a slab together, and the number of buffers. Slabs are multiplied in some
    buffers while others are being filled. The same warpgroups take all slabs of a buffer, so that none misses a
    phase."""
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
    """Return the bytes of a ring's mbarriers and of the counters of the warps that have used each buffer."""
    return 16 * ceil_div(12 * buffers, 16)
