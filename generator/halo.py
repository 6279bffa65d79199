"""The `halo` family: convolutions by persistent blocks whose weights stay in shared memory. The copy engine (TMA)
brings the input of a tile once, with its halo, and every tap reads it in place through a descriptor of `wgmma`; it
stores the outputs as well. docs/hopper/5_halo.cu shows the idea alone. A filter of one tap has no halo: such a layer is
a copy with products hidden in it. Where a stride lies between the pixels that neighbouring outputs look at, a tile has
several windows, one for each remainder: the copy engine passes over the pixels in between. Output channels are the rows
of an instruction, 64 at a time; where that wastes products, pixels are its rows and channels its columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator import halo_cost, tensor_map, wgmma
from qconv.generator.convolution import (
    argument_fields,
    problem_constants,
    repack_launch,
)
from qconv.generator.family import Choices, Family
from qconv.generator.halo_memory import (
    is_residual_staged,
    is_staged,
    maps,
    slots,
    smem_bytes,
    tile_map,
    weight_bytes,
)
from qconv.generator.halo_windows import COLUMNS, Windows
from qconv.generator.persistent import ImageTiles, PersistentPlan, Products, map_fields, warpgroup_of
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.instruction import WarpgroupInstruction
from qconv.problem import Conv2d
from qconv.target import Target

GROUP_THREADS = 128
# Instructions of a tile, which are all written out.
MOST_PRODUCTS = 160
# An instruction has 64 rows: output channels, or pixels where fewer channels are multiplied for it.
INSTRUCTION_ROWS = 64
INSTRUCTION_EIGHTS = INSTRUCTION_ROWS // COLUMNS
# Registers of a thread, once its role is known, by the number of consumers; and those beside the sums.
REGISTERS = {2: (40, 232), 3: (32, 160)}
BESIDE_SUMS = 80


@dataclass(frozen=True)
class Halo(Config):
    family: ClassVar[str] = "halo"
    rows: int  # of a tile, which is eight pixels wide
    consumers: int  # warpgroups that multiply, in turn
    channels: int  # output channels of a tile: rows of the instruction where they are whole 64, else its columns

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


@dataclass(frozen=True, kw_only=True)
class HaloRoles(Products):
    staged: bool  # whether outputs go through shared memory and the copy engine
    write_sums: str  # the file that makes outputs of a tile's sums
    residual_in_smem: bool  # whether residuals come with the window
    strided: bool = False  # whether taps lie a stride from each other
    pixel_rows: bool = False  # whether pixels are the rows of an instruction, and channels its columns
    tile_rows: str = "TILE_M"  # how many of a tile are rows of instructions
    tile_columns: str = "TILE_N"
    zeros_behind: bool = False  # whether a pixel's last slab ends in steps of nothing but zeros
    tile_at_once: bool = True  # whether all products of a tile are under way together
    products_of_tile: str = "conv2d/halo_products.j2"


@dataclass(frozen=True)
class HaloPlan(PersistentPlan):
    page: ClassVar[str] = "conv2d/halo.j2"

    config: Halo
    instruction: WarpgroupInstruction
    slots: int  # windows that are under way or multiplied

    @property
    def pixels(self) -> int:
        """How many a tile has."""
        return COLUMNS * self.config.rows

    @cached_property
    def seen(self) -> Conv2d:
        """The problem as tiles are counted."""
        return as_seen(self.problem)

    @cached_property
    def windows(self) -> Windows:
        return Windows.of(self.problem, self.config.rows)

    @property
    def weight_bytes(self) -> int:
        return weight_bytes(self.problem, self.config)

    @property
    def products(self) -> int:
        return products(self.problem, self.config)

    @property
    def columns(self) -> int:
        """How many an instruction has."""
        return self.config.channels if self.config.has_pixel_rows else self.pixels

    @property
    def staged(self) -> bool:
        return is_staged(self.problem)

    @property
    def residual_in_smem(self) -> bool:
        return is_residual_staged(self.problem)

    @property
    def threads(self) -> int:
        return GROUP_THREADS * (self.config.consumers + 1)

    @property
    def weight_rows(self) -> int:
        """Output channels, and rows of zeros that fill the last tile."""
        return self.config.channels * self.channel_tiles

    @property
    def weight_words(self) -> int:
        return self.weight_rows * self.problem.reduction // 4

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_halo", (self.blocks, 1, 1), self.threads, self.smem_bytes)
        return (*self.fold_launches, repack_launch(self.weight_words), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "the weights, with the rows of each 16 channels in the order of the lanes"
        weights = Field("weights", "int*", "workspace", says, None, self.weight_words)
        return argument_fields(self.problem, (weights, *self.border_fields, *self._map_fields))

    @property
    def _map_fields(self) -> tuple[Field, ...]:
        pixel_map, weight_map = maps(self.seen, self.config, self.weight_rows)
        found = {"pixel_map": ("of x", pixel_map), "weight_map": ("of the weights", weight_map)}
        if self.staged:
            found["output_map"] = "of y", tile_map(self.seen, self.config, "y")
        if self.residual_in_smem:
            found["residual_map"] = "of the residual", tile_map(self.seen, self.config, "residual")
        return map_fields(found)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return self.aligned(self.vector_k, y_in_chunks=self.staged, residual_in_chunks=self.residual_in_smem)

    @property
    def vector_k(self) -> int:
        """Neighbouring channels of a pixel that a lane reads or writes at once: all of them exist or none."""
        return gcd(self.problem.k, 4 if self.config.has_pixel_rows else 2)

    @property
    def wants(self) -> tuple[str, ...]:
        stores = ("store_tile_4d",) if self.staged else ()
        transposes = not self.config.has_pixel_rows
        staging = ("warpgroup_barrier", *("store_matrices",) * transposes) if self.staged else ()
        residuals = (*("load_transposed",) * transposes, "byte_floats") if self.residual_in_smem else ()
        overlap = ("overlap",) if self.overlaps else ()
        copies = tensor_map.wants("load_tile_4d", "load_tile_2d", *stores)
        return ("warp", "warp_barrier", "registers", *staging, *residuals, *overlap, *copies)

    @property
    def roles(self) -> HaloRoles:
        pixel_rows, strided = self.config.has_pixel_rows, self.windows.strided
        return HaloRoles(
            **vars(self.warpgroup_products(self.instruction, self.columns, "wgmma_windows", pixel_rows)),
            staged=self.staged,
            write_sums=file_of_outputs(self.staged, pixel_rows),
            residual_in_smem=self.residual_in_smem,
            strided=strided,
            pixel_rows=pixel_rows,
            tile_rows="TILE_N" if pixel_rows else "TILE_M",
            tile_columns="TILE_M" if pixel_rows else "TILE_N",
            zeros_behind=self.windows.last_row < self.windows.row,
            products_of_tile=f"conv2d/halo_products{'_strided' * strided}.j2",
        )

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.seen, filter_rows=True),
            "The config.": self._config_constants,
            "What follows.": self._constants_that_follow,
        }

    @property
    def _config_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("TILE_H", self.config.rows, "output rows of a tile, which is eight pixels wide"),
            Constant("CONSUMERS", self.config.consumers, "warpgroups that multiply, in turn"),
            Constant("TILE_M", self.config.channels, "output channels of a tile"),
        )

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        return (
            *self.role_constants(*REGISTERS[self.config.consumers]),
            Constant("TILE_N", self.pixels, "output pixels of a tile"),
            *_window_constants(self.windows),
            Constant("SLOTS", self.slots, "windows that are under way or multiplied"),
            *self.image_constants(tiles_down(self.seen, self.config), tiles_across(self.seen), self.weight_rows),
            *self._vector_constants,
            *self.last_constants,
        )

    @property
    def _vector_constants(self) -> tuple[Constant, ...]:
        """Only where lanes read or write device memory."""
        if self.staged and (self.residual_in_smem or self.problem.quantization.residual == "none"):
            return ()
        return (Constant("VECTOR_K", self.vector_k, "neighbouring channels that a lane reads or writes at once"),)

    def cost(self) -> float:
        return halo_cost.cost(self)


def as_seen(problem: Conv2d) -> Conv2d:
    """Where each pixel's output depends on it alone, images are one column of rows that are as wide as a tile: nothing
    of a tile lies beyond the edges of images."""
    alone = problem.r * problem.s == 1 and problem.stride == (1, 1) and not any(problem.pad)
    if not alone or problem.pixels % COLUMNS:
        return problem
    return replace(problem, n=1, h=problem.pixels // COLUMNS, w=COLUMNS)


def _window_constants(windows: Windows) -> tuple[Constant, ...]:
    last_row = Constant("LAST_ROW", windows.last_row, "and of its last slab, up to the zeros behind its channels")
    in_slabs = (
        Constant("ROW", windows.row, "bytes of a pixel in a slab"),
        *(last_row,) * (windows.last_row < windows.row),
        Constant("SLABS", windows.slabs, "of a pixel's channels"),
    )
    if not windows.strided:
        return (
            Constant("WINDOW_H", windows.rows, "rows of the input that come for a tile"),
            Constant("WINDOW_W", windows.columns, "and columns"),
            *in_slabs,
        )
    return (
        Constant("WINDOW_H", windows.rows, "rows of a window"),
        Constant("WINDOW_W", windows.columns, "and columns, a stride from each other"),
        Constant("ROW_STEP", windows.row_step, "rows of the input from one row of a window to the next"),
        Constant("WINDOWS", windows.count, "of a tile, by the remainders of rows and columns"),
        Constant("WINDOWS_ACROSS", windows.across, "by the remainders of columns"),
        *in_slabs,
    )


def tiles_down(problem: Conv2d, config: Halo) -> int:
    return ceil_div(problem.oh, config.rows)


def tiles_across(problem: Conv2d) -> int:
    return ceil_div(problem.ow, COLUMNS)


def products(problem: Conv2d, config: Halo) -> int:
    return problem.r * problem.s * Windows.of(problem, config.rows).steps * config.instructions


def file_of_outputs(staged: bool, pixel_rows: bool = False) -> str:
    """What makes outputs of a tile's sums."""
    return "conv2d/halo_staged.j2" if staged else f"conv2d/halo_direct{'_by_pixels' * pixel_rows}.j2"


def why_none(problem: Conv2d, target: Target) -> str | None:
    """What stands against every config."""
    return wgmma.why_none(problem, target)


def plan(problem: Conv2d, config: Halo, target: Target) -> HaloPlan:
    check_choices(config, CHOICES)
    instruction = warpgroup_of(target, why_none(problem, target))
    seen = as_seen(problem)
    _check_useful(seen, config)
    windows = slots(problem, config, target)
    made = HaloPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        slots=windows,
        smem_bytes=smem_bytes(problem, config, windows),
        **vars(ImageTiles.of(seen, config.rows, COLUMNS, config.channels, target)),
    )
    made.check_sizes(made.pixels)
    at_most(made.weight_words, 2**29 - 1, "words of weights")
    # The maps refuse what the copy engine cannot copy.
    assert made.fields
    return made


def _check_useful(problem: Conv2d, config: Halo) -> None:
    """Refuses configs of which most of a tile is wasted, or whose sums leave no registers."""
    at_most(config.channels, max(64, 2 * problem.k - 1), f"channels of a tile (the problem has {problem.k})")
    at_most(config.rows, max(CHOICES["rows"][0], 2 * problem.oh - 1), f"rows of a tile (the problem has {problem.oh})")
    at_most(products(problem, config), MOST_PRODUCTS, "products of a tile, which are written out")
    in_registers = config.sums
    if config.has_pixel_rows:
        _check_pixel_rows(problem, config)
        # A lane has parameters of a quarter of the channels: an offset and a scale.
        in_registers += config.channels // 2
    at_most(in_registers, REGISTERS[config.consumers][1] - BESIDE_SUMS, "registers of a thread for sums")


def promising(problem: Conv2d, target: Target, choices: Choices) -> Iterator[Halo]:
    """Most combinations with pixel rows multiply as many channels as those without."""
    if why_none(problem, target) is not None:
        return
    for values in itertools.product(*choices.values()):
        config = Halo(**dict(zip(choices, values, strict=True)))
        if not config.has_pixel_rows or (
            config.rows % INSTRUCTION_EIGHTS == 0
            and _multiplied(problem, config.channels) < _multiplied(problem, INSTRUCTION_ROWS)
        ):
            yield config


def _multiplied(problem: Conv2d, at_once: int) -> int:
    """Output channels, with those that fill the last tile of so many."""
    return ceil_div(problem.k, at_once) * at_once


def _check_pixel_rows(problem: Conv2d, config: Halo) -> None:
    """Pixels are rows of instructions where fewer channels are multiplied for it."""
    if config.rows % INSTRUCTION_EIGHTS:
        raise Infeasible(
            f"rows={config.rows}: with channels={config.channels}, no multiple of {INSTRUCTION_ROWS}, instructions "
            f"multiply {INSTRUCTION_EIGHTS} rows of eight pixels at once; give a multiple of {INSTRUCTION_EIGHTS}"
        )
    most = _multiplied(problem, INSTRUCTION_ROWS) - 1
    what = f"channels in tiles of {config.channels} (the problem has {problem.k})"
    at_most(_multiplied(problem, config.channels), most, what)


def structure(config: Halo) -> tuple[int, ...]:
    return config.consumers, config.channels


FAMILY = Family(("conv2d",), Halo, CHOICES, plan, promising, why_none, structure=structure)
