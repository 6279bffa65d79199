"""The configs of the `halo` family, and which of them are of use for a problem."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import why_not_promoted
from qconv.generator.families import Choices, wgmma
from qconv.generator.families.halo.windows import COLUMNS, MOST_PRODUCTS, Windows, is_gathered, reshaped
from qconv.generator.persistent import why_not_multiplied
from qconv.generator.plan import Config, at_most, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

GROUP_THREADS = 128
# Rows of an instruction: output channels, or pixels where that multiplies fewer channels.
INSTRUCTION_ROWS = 64
INSTRUCTION_EIGHTS = INSTRUCTION_ROWS // COLUMNS
# Registers per thread of the producer and of a consumer, by the number of consumers. BESIDE_SUMS of a consumer's are
# for other things than sums.
REGISTERS = {2: (40, 232), 3: (32, 160)}
REGISTERS_OF_GATHERING = {2: (72, 216), 3: (56, 152)}
BESIDE_SUMS = 80
# The fewest channels of pixels that lanes bring: the stems serve fewer.
FEWEST_GATHERED = 5
# Bytes that these lanes read at once; and chunks in flight per lane, where it loads and stores.
WORD, CHUNKS_AT_ONCE = 4, 4


@dataclass(frozen=True)
class Halo(Config):
    family: ClassVar[str] = "halo"
    rows: int  # of a tile, which is eight pixels wide
    consumers: int  # warpgroups that multiply, in turn
    channels: int  # output channels of a tile: rows of the instruction if a multiple of 64, else its columns

    @property
    def cluster_blocks(self) -> int:
        """Blocks that compute a tile together."""
        return 1

    @property
    def has_pixel_rows(self) -> bool:
        """True if the rows of an instruction are pixels, and its columns output channels."""
        return self.channels % INSTRUCTION_ROWS > 0

    @property
    def instructions(self) -> int:
        """Instructions per tile and 32 bytes of the reduction."""
        return (COLUMNS * self.rows if self.has_pixel_rows else self.channels) // INSTRUCTION_ROWS

    @property
    def sums(self) -> int:
        """Sums per thread, each in a register."""
        return COLUMNS * self.rows * self.channels // GROUP_THREADS


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28),
    "consumers": (2, 3),
    "channels": (16, 32, 48, 64, 80, 96, 112, 128),
}


def products(problem: Conv2d, config: Halo) -> int:
    """Instructions per tile."""
    return problem.r * problem.s * Windows.of(problem, config.rows).steps * config.instructions


def why_none(problem: Conv2d, target: Target) -> str | None:
    """Why no config is feasible, or None."""
    t = problem.quantization.types
    if (reason := why_not_promoted(problem)) is not None:
        return reason
    if t.x.bytes > 1 and is_gathered(problem):
        return f"c={problem.c} of {t.x.name}: lanes bring pixels of bytes; pad them to whole 16 bytes, or use mma"
    if problem.frames is not None and is_gathered(problem):
        return f"c={problem.frame_c} of a frame: lanes bring pixels of images; pad them to whole 16 bytes"
    tiled = reshaped(problem)
    if not is_gathered(tiled) or target.warpgroup is None or not target.tensor_maps:
        return wgmma.why_none(tiled, target)
    if (reason := why_not_multiplied(problem, target.warpgroup)) is not None:
        return reason
    if problem.r * problem.s == 1:
        return f"c={problem.c}: pixels of 1x1 layers are gathered by pointwise, which reads each of them once"
    if problem.c < FEWEST_GATHERED:
        return (
            f"c={problem.c}: fewer than {FEWEST_GATHERED} channels waste most of an instruction; the stems serve them"
        )
    if prod(problem.x_shape) % WORD:
        return f"x has {prod(problem.x_shape)} bytes: lanes that bring pixels read whole words; mma serves it"
    return None


def registers(problem: Conv2d, config: Halo) -> tuple[int, int]:
    """Registers per thread of the producer and of a consumer."""
    return (REGISTERS_OF_GATHERING if is_gathered(problem) else REGISTERS)[config.consumers]


def check_useful(problem: Conv2d, config: Halo) -> None:
    """Refuse configs that waste most of a tile, or whose sums leave no registers."""
    at_most(config.channels, max(64, 2 * problem.k - 1), f"channels of a tile (the problem has {problem.k})")
    fewest = CHOICES["rows"][0] * config.cluster_blocks  # each block makes the outputs of as many
    at_most(config.rows, max(fewest, 2 * problem.oh - 1), f"rows of a tile (the problem has {problem.oh})")
    at_most(products(problem, config), MOST_PRODUCTS, "products of a tile, which are written out")
    in_registers = config.sums
    if config.has_pixel_rows:
        if (reason := why_no_pixel_rows(problem, config)) is not None:
            raise Infeasible(reason)
        # A lane has the parameters of a quarter of the channels: an offset and a scale each.
        in_registers += config.channels // 2
    at_most(in_registers, registers(problem, config)[1] - BESIDE_SUMS, "registers of a thread for sums")


def promising(problem: Conv2d, target: Target, choices: Choices) -> Iterator[Halo]:
    """Yield all combinations, but those with pixel rows that multiply as many channels as others without."""
    if why_none(problem, target) is not None:
        return
    every = itertools.starmap(Halo, itertools.product(*(choices[name] for name in CHOICES)))
    yield from (one for one in every if not one.has_pixel_rows or why_no_pixel_rows(problem, one) is None)


def _multiplied(problem: Conv2d, tile_channels: int) -> int:
    """Output channels of whole tiles."""
    return ceil_div(problem.k, tile_channels) * tile_channels


def why_no_pixel_rows(problem: Conv2d, config: Halo) -> str | None:
    """Why pixels may not be the rows of instructions, or None where that multiplies fewer channels."""
    if config.rows % INSTRUCTION_EIGHTS:
        return (
            f"rows={config.rows}: with channels={config.channels}, no multiple of {INSTRUCTION_ROWS}, instructions "
            f"multiply {INSTRUCTION_EIGHTS} rows of eight pixels at once; give a multiple of {INSTRUCTION_EIGHTS}"
        )
    multiplied, otherwise = _multiplied(problem, config.channels), _multiplied(problem, INSTRUCTION_ROWS)
    if multiplied >= otherwise:
        return (
            f"channels={config.channels}: {multiplied} are multiplied for the problem's {problem.k}; a multiple of "
            f"{INSTRUCTION_ROWS} multiplies {otherwise}"
        )
    return None


def structure(config: Halo) -> tuple[int, ...]:
    return config.consumers, config.channels
