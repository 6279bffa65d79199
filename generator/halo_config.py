"""The configs of the `halo` family, and which of them are of use for a problem."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator import wgmma
from qconv.generator.family import Choices
from qconv.generator.halo_seen import as_seen
from qconv.generator.halo_windows import COLUMNS, MOST_PRODUCTS, Windows, is_gathered
from qconv.generator.persistent import why_not_multiplied
from qconv.generator.plan import Config, at_most, ceil_div
from qconv.problem import Conv2d
from qconv.target import Target

GROUP_THREADS = 128
# An instruction has 64 rows: output channels, or pixels where fewer channels are multiplied for it.
INSTRUCTION_ROWS = 64
INSTRUCTION_EIGHTS = INSTRUCTION_ROWS // COLUMNS
# Registers of a thread, once its role is known, by the number of consumers; and those beside the sums.
REGISTERS = {2: (40, 232), 3: (32, 160)}
REGISTERS_OF_GATHERING = {2: (72, 216), 3: (56, 152)}
BESIDE_SUMS = 80
# Where lanes bring pixels: the fewest channels, for the stems serve fewer.
FEWEST_GATHERED = 5
# Bytes of what they read, and where they load and store, how many chunks of a lane are under way together.
WORD, CHUNKS_AT_ONCE = 4, 4


@dataclass(frozen=True)
class Halo(Config):
    family: ClassVar[str] = "halo"
    rows: int  # of a tile, which is eight pixels wide
    consumers: int  # warpgroups that multiply, in turn
    channels: int  # output channels of a tile: rows of the instruction where they are whole 64, else its columns

    @property
    def blocks(self) -> int:
        """That have a tile together."""
        return 1

    @property
    def has_pixel_rows(self) -> bool:
        """Whether pixels are the rows of the instruction: it has 64, and as many columns as there are channels."""
        return self.channels % INSTRUCTION_ROWS > 0

    @property
    def instructions(self) -> int:
        """How many a tile takes for 32 bytes of the reduction."""
        return (COLUMNS * self.rows if self.has_pixel_rows else self.channels) // INSTRUCTION_ROWS

    @property
    def sums(self) -> int:
        """Registers of a thread."""
        return COLUMNS * self.rows * self.channels // GROUP_THREADS


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28),
    "consumers": (2, 3),
    "channels": (16, 32, 48, 64, 80, 96, 112, 128),
}


def products(problem: Conv2d, config: Halo) -> int:
    return problem.r * problem.s * Windows.of(problem, config.rows).steps * config.instructions


def why_none(problem: Conv2d, target: Target) -> str | None:
    """What stands against every config."""
    seen = as_seen(problem)
    if not is_gathered(seen) or target.warpgroup is None or not target.tensor_maps:
        return wgmma.why_none(seen, target)
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
    """What a thread of the producer has, and one of a consumer."""
    return (REGISTERS_OF_GATHERING if is_gathered(problem) else REGISTERS)[config.consumers]


def check_useful(problem: Conv2d, config: Halo) -> None:
    """Refuses configs of which most of a tile is wasted, or whose sums leave no registers."""
    at_most(config.channels, max(64, 2 * problem.k - 1), f"channels of a tile (the problem has {problem.k})")
    at_most(config.rows, max(CHOICES["rows"][0], 2 * problem.oh - 1), f"rows of a tile (the problem has {problem.oh})")
    at_most(products(problem, config), MOST_PRODUCTS, "products of a tile, which are written out")
    in_registers = config.sums
    if config.has_pixel_rows:
        if (reason := why_no_pixel_rows(problem, config)) is not None:
            raise Infeasible(reason)
        # A lane has parameters of a quarter of the channels: an offset and a scale.
        in_registers += config.channels // 2
    at_most(in_registers, registers(problem, config)[1] - BESIDE_SUMS, "registers of a thread for sums")


def promising(problem: Conv2d, target: Target, choices: Choices) -> Iterator[Halo]:
    """Most combinations with pixel rows multiply as many channels as those without."""
    if why_none(problem, target) is not None:
        return
    every = itertools.starmap(Halo, itertools.product(*(choices[name] for name in CHOICES)))
    yield from (one for one in every if not one.has_pixel_rows or why_no_pixel_rows(problem, one) is None)


def _multiplied(problem: Conv2d, at_once: int) -> int:
    """Output channels, with those that fill the last tile of so many."""
    return ceil_div(problem.k, at_once) * at_once


def why_no_pixel_rows(problem: Conv2d, config: Halo) -> str | None:
    """Pixels are rows of instructions where fewer channels are multiplied for it."""
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
