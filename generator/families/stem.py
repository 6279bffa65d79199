"""The `stem` family: first layers of one to four channels, on matrix instructions. A pixel is one word in shared
memory. The reduction runs over whole filter rows (taps by channels), and the filters stay in registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import why_not_bytes
from qconv.generator.cost_units import launched, of_activation
from qconv.generator.families import Family
from qconv.generator.plan import Constant, at_most, ceil_div, check_choices
from qconv.generator.tiles import (
    TiledConfig,
    TiledPlan,
    TiledRoles,
    check_blocks_per_sm,
    features,
    instruction_of,
    size_constants,
    tiles_of,
    warp_constants,
)
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Words in a lane's registers: of filters, and of filters and sums.
MOST_FILTER_WORDS = 128
MOST_WORDS = 168
# Words of the next tile that a thread prefetches into registers.
MOST_CARRIED_WORDS = 32


@dataclass(frozen=True)
class Stem(TiledConfig):
    family: ClassVar[str] = "stem"
    tile_h: int  # output rows per block
    tile_w: int  # output columns per block
    atoms: int  # groups of 8 output channels per warp
    slabs: int  # slabs of 8 * `atoms` channels per block
    warps: int
    batch: int  # groups of 16 pixels that a warp computes together
    blocks_per_sm: int  # resident blocks per multiprocessor


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (4, 8, 16),
    "tile_w": (8, 16, 32, 64),
    "atoms": (1, 2, 4, 8),
    "slabs": (1, 2),
    "warps": (2, 4, 8),
    "batch": (1, 2),
    "blocks_per_sm": (2, 3, 4, 6),
}
LIKELY: dict[str, tuple[int, ...]] = {
    "tile_h": (8, 16),
    "tile_w": (8, 16, 32),
    "warps": (4, 8),
}


def why_none(problem: Conv2d, target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    if instruction_of(target) is None:
        return f"{target.name} has no mma.m16n8k32"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if problem.groups != 1 or problem.c > 4:
        return f"a first layer has at most 4 channels in one group (here c={problem.c}, groups={problem.groups})"
    return why_not_bytes(problem)


# Measured clocks over counted clocks, for 15 kernels on an H200: more overlaps than the model describes.
FITTED = 0.57


@dataclass(frozen=True, kw_only=True)
class StemRoles(TiledRoles):
    quads: bool


@dataclass(frozen=True)
class StemPlan(TiledPlan):
    page: ClassVar[str] = "families/stem.j2"

    config: Stem
    taps_of_word: int  # taps of a filter row per word
    row_words: int  # words per filter row
    quads: bool  # four pixels of a row are read at once, in whole words

    @cached_property
    def alignment(self) -> dict[str, int]:
        lane_k, y_bytes = 2 * self.atoms, self.problem.quantization.types.y.bytes
        both = self.problem.k | lane_k
        store_k = lane_k if self.problem.k % lane_k == 0 else both & -both
        return self._aligned(4 if self.quads else 1, min(16, store_k * y_bytes))

    @property
    def roles(self) -> StemRoles:
        return StemRoles(instruction=self.instruction, spelled=self.spelled, operation=self.operation, quads=self.quads)

    @property
    def wants(self) -> tuple[str, ...]:
        return ("warp", *(("bytes",) if self.quads else ()))

    @property
    def _config_constants(self) -> tuple[Constant, ...]:
        return (
            *size_constants(self.config),
            Constant("ATOMS", self.config.atoms, "groups of 8 output channels per warp"),
            Constant("SLABS", self.config.slabs, "slabs of these channels per block"),
            *warp_constants(self.config),
        )

    @property
    def _own_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("TAPS_OF_WORD", self.taps_of_word, "taps of a filter row per word"),
            Constant("ROW_WORDS", self.row_words, "words per filter row"),
            Constant("STEPS", self.steps, "steps of eight words of a filter"),
            *self.tiles.slab_constants,
            *self.tiles.constants,
        )

    def cost(self) -> float:
        config, problem, tiles, steps = self.config, self.problem, self.tiles, self.steps
        sums = 1 + problem.quantization.w_zero_point
        sixteens = config.tile_h * config.tile_w // 16 * config.slabs
        # Clocks of a quarter of a multiprocessor: about seven per product, one per other instruction.
        products = sixteens * steps * 7 * config.atoms * sums
        of_output = 6 + of_activation(problem)
        instructions: float = sixteens * (steps * (4 + config.atoms * sums) + 4 * config.atoms * of_output + 40)
        instructions += self.smem_bytes / 2 / 16 / 32 * (24 if self.quads else 160) + config.warps * 30
        # one thread runs after the other
        if self.target.vendor == "cpu":
            return tiles.count * (products + instructions) * 32 / 64
        per_sm = tiles.resident
        # The warps issue few instructions per clock, because each waits for its own results.
        at_a_time = min(2.5, per_sm * config.warps * (1 + config.batch) / 16)
        step = per_sm * max(products / 4, instructions / at_a_time)
        issued = FITTED * (tiles.turns * (step + 150) + 2500 + 12 * steps * config.atoms)
        return launched(problem, self.target, issued)


def plan(problem: Conv2d, config: Stem, target: Target) -> StemPlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = instruction_of(target)
    assert instruction is not None
    taps_of_word = {1: 4, 2: 2}.get(problem.c, 1)
    row_words, steps = _words(problem.r, ceil_div(problem.s, taps_of_word))
    registers = _registers_kept(problem, config, steps)
    slab_k = 8 * config.atoms
    if config.atoms > 1:
        at_most(slab_k, 2 * problem.k - 1, f"output channels of a warp (the problem has {problem.k})")
    tiles = tiles_of(problem, config, CHOICES, slab_k, ceil_div(problem.k, slab_k), target)
    quads = problem.w % 4 == 0 and (problem.c > 2 or problem.tap_steps[1] == 1)
    rows, pitch = _input_words(problem, config, (row_words - 1) * taps_of_word * problem.tap_steps[1] + 1, quads)
    carried = _words_carried(problem, rows * pitch, quads, tiles.threads)
    smem_bytes = 2 * ceil_div(4 * rows * pitch, 16) * 16
    check_blocks_per_sm(config.blocks_per_sm, tiles.threads, smem_bytes, registers + carried + 40, target)
    return StemPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        tiles=tiles,
        steps=steps,
        smem_bytes=smem_bytes,
        taps_of_word=taps_of_word,
        row_words=row_words,
        quads=quads,
    )


def _words(rows: int, of_row: int) -> tuple[int, int]:
    """Return the words per filter row, and the steps of eight words. Rows are rounded up to four words unless that
    costs a step: their offsets are then the same for all lanes, which is faster."""
    fours = ceil_div(of_row, 4) * 4
    steps = ceil_div(rows * of_row, 8)
    return (fours, steps) if ceil_div(rows * fours, 8) == steps else (of_row, steps)


def _input_words(problem: Conv2d, config: Stem, filter_columns: int, quads: bool) -> tuple[int, int]:
    """Return the input rows that a tile reads, and the words per row."""
    rows = (config.tile_h - 1) * problem.stride[0] + (problem.r - 1) * problem.dilation[0] + 1
    columns = (config.tile_w - 1) * problem.stride[1] + filter_columns
    return rows, ceil_div(columns + 3, 4) * 4 if quads else columns


def _registers_kept(problem: Conv2d, config: Stem, steps: int) -> int:
    """Return the registers per lane of filters and sums. Raises Infeasible where they do not fit."""
    filters = 2 * steps * config.atoms
    at_most(filters, MOST_FILTER_WORDS, "registers of a lane for filters")
    sums = config.batch * 4 * config.atoms * (1 + problem.quantization.w_zero_point)
    at_most(filters + sums, MOST_WORDS, "registers of a lane for filters and sums")
    return filters + sums


def _words_carried(problem: Conv2d, words: int, quads: bool, threads: int) -> int:
    """Return the words of the next tile that a thread prefetches into registers, out of `words`. Raises Infeasible
    where they are too many."""
    vectors, of_vector = (words // 4, problem.c + (problem.c < 3)) if quads else (words, 1)
    carried = ceil_div(vectors, threads) * of_vector
    at_most(carried, MOST_CARRIED_WORDS, "registers of a thread for the next tile")
    return carried


FAMILY = Family(
    ops=("conv2d",),
    config=Stem,
    choices=CHOICES,
    plan=plan,
    cost=StemPlan.cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
