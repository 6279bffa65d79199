"""The `stem` family: first layers of one to four channels, on matrix instructions. A pixel is whole words in shared
memory: one of bytes, two of three or four halves. The reduction runs over whole filter rows (taps by channels), and the
filters stay in registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span, why_not_bytes, why_not_promoted
from qconv.generator.cost_units import launched, of_activation
from qconv.generator.expect.features import log
from qconv.generator.families import Family
from qconv.generator.plan import Constant, at_most, ceil_div, check_choices
from qconv.generator.tiles import (
    TiledConfig,
    TiledPlan,
    TiledRoles,
    check_blocks_per_sm,
    instruction_for,
    instruction_of,
    size_constants,
    tiles_of,
    warp_constants,
)
from qconv.generator.tiles import features as tiled_features
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
    t = problem.quantization.types
    if t.sum.is_integer:
        return why_not_bytes(problem)
    if instruction_for(problem, target) is None:
        return f"{t.x.name} by {t.w.name}: {target.name} has no mma.sync that multiplies these; simt serves it"
    return why_not_promoted(problem)


# Measured clocks over counted clocks, for 15 kernels of bytes on an H200: more overlaps than the model describes.
FITTED = 0.57


@dataclass(frozen=True)
class Pixels:
    """How words of shared memory hold pixels: with all channels of one or, of a single channel or of two bytes, those
    of the next taps in the same word."""

    channels: int
    element_bytes: int

    @classmethod
    def of(cls, problem: Conv2d) -> Pixels:
        return cls(problem.c, problem.quantization.types.x.bytes)

    @property
    def of_word(self) -> int:
        """Elements per word."""
        return 4 // self.element_bytes

    @property
    def words(self) -> int:
        """Words per pixel."""
        return ceil_div(self.channels, self.of_word)

    @property
    def taps_of_word(self) -> int:
        return max(1, self.of_word // self.channels)

    @property
    def vector_words(self) -> int:
        """Words that a thread loads for four pixels, and for the next taps of the last of them."""
        return (self.channels + (self.taps_of_word > 1)) * self.element_bytes

    @property
    def lanes_words(self) -> int:
        """Neighbouring words of a filter that four lanes read at once: each reads a pair where pixels are whole
        pairs."""
        return 8 if self.words % 2 == 0 else 4

    def filter_words(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the words per filter row, and the steps of eight words. Rows are rounded up to what the lanes read at
        once unless that costs a step: their offsets are then the same for all lanes, which is faster. Wide elements
        have more steps, whose offsets take registers: one step in twelve may be spent to save these."""
        of_row = ceil_div(columns, self.taps_of_word) * self.words
        rounded = ceil_div(of_row, self.lanes_words) * self.lanes_words
        steps = ceil_div(rows * of_row, 8)
        spare, of_rounded = steps // 12 if self.element_bytes > 1 else 0, ceil_div(rows * rounded, 8)
        return (rounded, of_rounded) if of_rounded <= steps + spare else (of_row, steps)


@dataclass(frozen=True, kw_only=True)
class StemRoles(TiledRoles):
    quads: bool
    elements: str  # folder of the files that read pixels of bytes, or of wider elements
    loads: str  # the file that loads whole words of four pixels, or one element after the other
    a_word: str  # of floats: the prelude's C++ type that reads the elements of A from a word
    b_word: str


@dataclass(frozen=True)
class StemPlan(TiledPlan):
    page: ClassVar[str] = "families/stem/page.j2"

    config: Stem
    pixels: Pixels
    row_words: int  # words per filter row
    quads: bool  # four pixels of a row are read at once, in whole words

    @cached_property
    def alignment(self) -> dict[str, int]:
        lane_k, y_bytes = 2 * self.atoms, self.problem.quantization.types.y.bytes
        both = self.problem.k | lane_k
        store_k = lane_k if self.problem.k % lane_k == 0 else both & -both
        element = self.pixels.element_bytes
        return self._aligned((4 if self.quads else 1) * element, min(16, store_k * y_bytes)) | {"w": element}

    @property
    def is_wide(self) -> bool:
        """True if an element is wider than a byte."""
        return self.pixels.element_bytes > 1

    @property
    def roles(self) -> StemRoles:
        t, elements = self.problem.quantization.types, f"families/stem/{'wide' if self.is_wide else 'bytes'}"
        return StemRoles(
            instruction=self.instruction,
            spelled=self.spelled,
            operation=self.operation,
            quads=self.quads,
            elements=elements,
            loads=f"families/stem/{'quads' if self.quads else 'words'}.j2",
            pack=f"convolution/pack/{'elements' if self.is_wide else 'bytes'}.j2",
            a_word=t.x.word,
            b_word=t.w.word,
        )

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
            Constant("TAPS_OF_WORD", self.pixels.taps_of_word, "taps of a filter row per word"),
            *((Constant("PIXEL_WORDS", self.pixels.words, "words per pixel"),) if self.is_wide else ()),
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
        # Four words of a tile's input at a time; or element by element, of which words have fewer if they are wide.
        of_four = 24 if self.quads else 160 / self.pixels.element_bytes
        instructions += self.smem_bytes / 2 / 16 / 32 * of_four + config.warps * 30
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
    instruction, pixels = instruction_for(problem, target), Pixels.of(problem)
    assert instruction is not None
    row_words, steps = pixels.filter_words(problem.r, problem.s)
    registers = _registers_kept(problem, config, steps)
    slab_k = 8 * config.atoms
    if config.atoms > 1:
        at_most(slab_k, 2 * problem.k - 1, f"output channels of a warp (the problem has {problem.k})")
    tiles = tiles_of(problem, config, CHOICES, slab_k, ceil_div(problem.k, slab_k), target)
    quads = problem.w % 4 == 0 and (pixels.taps_of_word == 1 or problem.tap_steps[1] == 1)
    taps = ceil_div(row_words, pixels.words) * pixels.taps_of_word
    rows, columns = _input_pixels(problem, config, (taps - pixels.taps_of_word) * problem.tap_steps[1] + 1, quads)
    carried = _words_carried(pixels, rows * columns, quads, tiles.threads)
    smem_bytes = 2 * ceil_div(4 * rows * columns * pixels.words, 16) * 16
    own_offsets = steps if pixels.element_bytes > 1 and row_words % pixels.lanes_words else 0
    words = registers + carried + own_offsets + 40
    check_blocks_per_sm(config.blocks_per_sm, tiles.threads, smem_bytes, words, target)
    return StemPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        tiles=tiles,
        steps=steps,
        smem_bytes=smem_bytes,
        pixels=pixels,
        row_words=row_words,
        quads=quads,
    )


def _input_pixels(problem: Conv2d, config: Stem, filter_columns: int, quads: bool) -> tuple[int, int]:
    """Return the rows and columns of the input that a tile reads."""
    rows, _ = input_span(problem, config.tile_h, config.tile_w)
    columns = (config.tile_w - 1) * problem.stride[1] + filter_columns
    return rows, ceil_div(columns + 3, 4) * 4 if quads else columns


def _registers_kept(problem: Conv2d, config: Stem, steps: int) -> int:
    """Return the registers per lane of filters and sums. Raises Infeasible where they do not fit."""
    filters = 2 * steps * config.atoms
    at_most(filters, MOST_FILTER_WORDS, "registers of a lane for filters")
    sums = config.batch * 4 * config.atoms * (1 + problem.quantization.w_zero_point)
    at_most(filters + sums, MOST_WORDS, "registers of a lane for filters and sums")
    return filters + sums


def _words_carried(pixels: Pixels, of_tile: int, quads: bool, threads: int) -> int:
    """Return the words that a thread prefetches into registers, out of the `of_tile` pixels of the next tile. Raises
    Infeasible where they are too many."""
    vectors, of_vector = (of_tile // 4, pixels.vector_words) if quads else (of_tile * pixels.words, 1)
    carried = ceil_div(vectors, threads) * of_vector
    at_most(carried, MOST_CARRIED_WORDS, "registers of a thread for the next tile")
    return carried


def features(plan: StemPlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction."""
    # A feature more, so that a correction that is fitted to bytes alone is none of floats.
    of_floats = {} if plan.problem.quantization.types.sum.is_integer else {"pixel_words": log(plan.pixels.words)}
    return tiled_features(plan) | of_floats


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
