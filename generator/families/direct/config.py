"""The config of `direct`, its search space, and the channels that a warp multiplies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import why_not_bytes, why_not_promoted
from qconv.generator.plan import at_most, ceil_div
from qconv.generator.tiles import TiledConfig, instruction_for, instruction_of
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Bytes per chunk: a row of an 8x8 matrix of the instruction.
CHUNK = 16
# Words of filters that a lane has in registers while its warp works on its slab.
MOST_FILTER_WORDS = 128
# Output channels per slab. A lane cannot hold the sums and filters of more.
MOST_SLAB_K = 64
# Slabs that divide a group's output channels among them.
PARTS = (1, 2, 4, 8)
# Bytes of a group's channels, of floats.
MOST_GROUP_BYTES = 64


@dataclass(frozen=True)
class Direct(TiledConfig):
    family: ClassVar[str] = "direct"
    tile_h: int  # output rows per block
    tile_w: int  # output columns per block
    slabs: int  # slabs of channels per block
    warps: int
    batch: int  # groups of 16 pixels that a warp computes together
    blocks_per_sm: int  # resident blocks per multiprocessor


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 8, 14),
    "tile_w": (8, 16),
    "slabs": (1, 2, 4, 8),
    "warps": (1, 2, 4, 8),
    "batch": (1, 2),
    "blocks_per_sm": (2, 3, 4, 6, 8),
}
LIKELY: dict[str, tuple[int, ...]] = {"warps": (4, 8), "batch": (2,), "blocks_per_sm": (2, 3, 4, 6)}


def why_none(problem: Conv2d, target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    of_floats, t = multiplies_floats(problem), problem.quantization.types
    instruction = instruction_for(problem, target) if of_floats else instruction_of(target)
    if instruction is None or not target.async_copies:
        multiplies = f"mma.sync of {t.x.name} by {t.w.name}" if of_floats else "mma.m16n8k32"
        return f"{target.name} has no {multiplies} with asynchronous copies"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if of_floats:
        return why_not_promoted(problem) or _why_not_groups(problem)
    if problem.c_group not in (1, 2, 4, 8, 16, 32):
        return f"groups of {problem.c_group} channels do not divide 16 and are not 32"
    if problem.c % 4:
        return f"c={problem.c} is no multiple of 4, the narrowest asynchronous copy"
    return why_not_bytes(problem)


def _why_not_groups(problem: Conv2d) -> str | None:
    """Return why no slab of floats has whole groups, or None."""
    group_bytes, x = problem.c_group * problem.quantization.types.x.bytes, problem.quantization.types.x.name
    if group_bytes > MOST_GROUP_BYTES or (CHUNK % group_bytes and group_bytes % CHUNK):
        return (
            f"groups of {problem.c_group} channels of {x}: {group_bytes} bytes neither divide {CHUNK} nor are a "
            f"multiple of it up to {MOST_GROUP_BYTES}"
        )
    if problem.pixel_bytes % 4:
        return f"c={problem.c} of {x}: pixels are no multiple of 4 bytes, the narrowest asynchronous copy"
    return None


def multiplies_floats(problem: Conv2d) -> bool:
    return not problem.quantization.types.sum.is_integer


# Generations without an instruction of warps for 8-bit floats, read from binaries: mma.sync of them is conversions, two
# products of 16-bit floats, and a sum.
_CONVERTING = ("Hopper", "Blackwell 10.0", "Blackwell 11.0")


def converts_floats(problem: Conv2d, target: Target) -> bool:
    """True where the compiler makes a product of 8-bit floats of several instructions."""
    t = problem.quantization.types
    return not t.sum.is_integer and t.x.bytes == 1 and target.generation.name in _CONVERTING


@dataclass(frozen=True)
class Slab:
    """The input channels of whole groups, whose filters share a matrix, and the output channels of a warp."""

    chunks: int  # chunks of 16 bytes of input channels
    c: int  # input channels
    k: int  # output channels
    parts: int  # slabs that have the same input channels
    steps: int  # instructions along the reduction, of two chunks each


def slab_of(problem: Conv2d) -> Slab:
    """Return the slab of the problem, or raise Infeasible."""
    slab = _slab_of_floats(problem) if multiplies_floats(problem) else _whole_groups(problem, CHUNK)
    if slab.k % 8:
        raise Infeasible(f"{slab.c} input channels have {slab.k} output channels, no multiple of 8")
    at_most(slab.k, MOST_SLAB_K, f"output channels of {slab.c} input channels")
    at_most(filter_words(slab), MOST_FILTER_WORDS, "registers of a lane for filters")
    return slab


def filter_words(slab: Slab) -> int:
    """Return the registers of a lane for its filters."""
    return 2 * slab.steps * slab.k // 8


def _whole_groups(problem: Conv2d, slab_bytes: int) -> Slab:
    """Return the slab of as many whole groups as `slab_bytes` of input channels are, at least one."""
    x_bytes = problem.quantization.types.x.bytes
    c = max(slab_bytes // x_bytes, problem.c_group)
    chunks = c * x_bytes // CHUNK
    steps = ceil_div(problem.r * problem.s * chunks, 2)
    return Slab(chunks, c, c // problem.c_group * problem.k_group, 1, steps)


def _slab_of_floats(problem: Conv2d) -> Slab:
    """Return the smallest slab whose output channels are whole instructions. Where a lane cannot hold the filters of
    one group, several warps divide the group's output channels among them."""
    slabs = [_whole_groups(problem, CHUNK * chunks) for chunks in (1, 2, 4)]
    slab = next((each for each in slabs if each.k % 8 == 0), slabs[0])
    if slab.c > problem.c_group:
        return slab
    divided = [replace(slab, k=slab.k // parts, parts=parts) for parts in PARTS if slab.k % (8 * parts) == 0]
    return next((part for part in divided if part.k <= MOST_SLAB_K and filter_words(part) <= MOST_FILTER_WORDS), slab)
