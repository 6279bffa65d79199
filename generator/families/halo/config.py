"""The problem as a kernel of `halo` counts it: the same bytes as other images, where these take less work.

The configs of the `halo` family, and which of them are of use for a problem.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.families.halo.windows import COLUMNS, MOST_PRODUCTS, ROWS, STEP, Windows, is_gathered
from qconv.generator.families.wgmma import plan as wgmma
from qconv.generator.family import Choices
from qconv.generator.persistent import why_not_multiplied
from qconv.generator.plan import Config, Constant, at_most, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# How many times the products columns as channels may take, and for how many output channels: the copy engine (TMA) is
# spared the columns between and rows that it fills with zeros, which counts where a window is multiplied once. Pixels
# that lanes bring (`is_gathered`) take longer than products of any number of channels.
WORTH, FEW_OUTPUTS = 4 / 3, 64


@lru_cache(maxsize=256)  # a plan asks several times
def as_seen(problem: Conv2d) -> Conv2d:
    """Where each pixel's output depends on it alone, images are one column of rows that are as wide as a tile: nothing
    of a tile lies beyond the edges of images. Where outputs lie a stride of columns from each other, these columns may
    be the channels of one pixel."""
    if (together := ColumnsTogether.of(problem)) is not None:
        return together.seen
    alone = problem.r * problem.s == 1 and problem.stride == (1, 1) and not any(problem.pad)
    if not alone or problem.pixels % COLUMNS:
        return problem
    return replace(problem, n=1, h=problem.pixels // COLUMNS, w=COLUMNS)


@dataclass(frozen=True)
class ColumnsTogether:
    """As many neighbouring columns as the stride are one pixel with the channels of all. The filter begins with the
    first column of a pixel and ends with the last of one: columns that it does not have are zeros."""

    problem: Conv2d
    seen: Conv2d

    @classmethod
    def of(cls, problem: Conv2d) -> ColumnsTogether | None:
        """None where columns stay apart."""
        columns = problem.stride[1]
        is_possible = columns > 1 and problem.dilation[1] == 1 and problem.w % columns == 0
        if not is_possible or problem.groups > 1 or problem.layout != "nhwc":
            return None
        left = ceil_div(problem.pad[1], columns)
        taps = ceil_div(left * columns - problem.pad[1] + problem.s, columns)
        products = problem.r * taps * ceil_div(columns * problem.c, STEP)
        is_worth_more = problem.k <= FEW_OUTPUTS or problem.c % CHUNK > 0
        worth = _products(problem) * (WORTH if is_worth_more else 1)
        if columns * problem.c > ROWS[-1] or products > min(MOST_PRODUCTS, worth):
            return None
        width = problem.w // columns
        try:
            seen = replace(
                problem,
                w=width,
                c=columns * problem.c,
                s=taps,
                stride=(problem.stride[0], 1),
                pad=(problem.pad[0], left, problem.pad[2], problem.ow - 1 + taps - width - left),
            )
        except ValueError:
            return None  # with the zeros, its arrays or its sums are larger than a problem's may be
        return cls(problem, seen)

    @property
    def columns(self) -> int:
        """So many are a pixel."""
        return self.problem.stride[1]

    @property
    def constants(self) -> tuple[Constant, ...]:
        zeros = self.seen.pad[1] * self.columns - self.problem.pad[1]
        return (
            Constant("COLUMNS_TOGETHER", self.columns, "neighbouring columns of x, which are one pixel here"),
            Constant("X_C", self.problem.c, "channels of each"),
            Constant("FILTER_W", self.problem.s, "columns of x that a filter has"),
            Constant("ZERO_COLUMNS", zeros, "before them, so that a filter begins with a pixel"),
        )


def _products(problem: Conv2d) -> int:
    """Instructions for 32 bytes of the reduction each."""
    return problem.r * problem.s * ceil_div(problem.c, STEP)


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
