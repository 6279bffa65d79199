"""The `halo` family: convolutions by persistent blocks whose weights stay in shared memory. The copy engine (TMA)
brings the input of a tile once, with its halo, and every tap reads it in place through a descriptor of `wgmma`; it
stores the outputs as well. docs/hopper/5_halo.cu shows the idea alone. A filter of one tap has no halo: such a layer is
a copy with products hidden in it. Where a stride lies between the pixels that neighbouring outputs look at, a tile has
several windows, one for each remainder: the copy engine passes over the pixels in between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from qconv.generator import halo_cost, tensor_map, wgmma
from qconv.generator.convolution import (
    argument_fields,
    problem_constants,
    repack_launch,
)
from qconv.generator.family import Family
from qconv.generator.halo_windows import COLUMNS, REPEATS, Windows
from qconv.generator.persistent import ImageTiles, PersistentPlan, Products, map_fields, warpgroup_of
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.generator.wgmma_slots import MBARRIER_BYTES
from qconv.instruction import WarpgroupInstruction
from qconv.problem import Conv2d
from qconv.target import Target

GROUP_THREADS = 128
# Slots for the windows of so many tiles: with more, nothing more is under way.
MOST_SLOTS = 8
# Instructions of a tile, which are all written out.
MOST_PRODUCTS = 128
# Registers of a thread, once its role is known, by the number of consumers; and those beside the sums.
REGISTERS = {2: (40, 232), 3: (32, 160)}
BESIDE_SUMS = 80


@dataclass(frozen=True)
class Halo(Config):
    family: ClassVar[str] = "halo"
    rows: int  # of a tile, which is eight pixels wide
    consumers: int  # warpgroups that multiply, in turn
    channels: int  # output channels of a tile


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28),
    "consumers": (2, 3),
    "channels": (64, 128),
}


@dataclass(frozen=True, kw_only=True)
class HaloRoles(Products):
    staged: bool  # whether outputs go through shared memory and the copy engine
    write_sums: str  # the file that makes outputs of a tile's sums
    residual_in_smem: bool  # whether residuals come with the window
    strided: bool = False  # whether taps lie a stride from each other
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
        """What a tile has, as columns of an instruction."""
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
        """Neighbouring channels of a pixel that a lane reads or writes at once: both exist or none."""
        return 2 if self.problem.k % 2 == 0 else 1

    @property
    def wants(self) -> tuple[str, ...]:
        stores = ("store_tile_4d",) if self.staged else ()
        staging = ("warpgroup_barrier", "store_matrices") if self.staged else ()
        residuals = ("load_transposed", "byte_floats") if self.residual_in_smem else ()
        overlap = ("overlap",) if self.overlaps else ()
        copies = tensor_map.wants("load_tile_4d", "load_tile_2d", *stores)
        return ("warp", "warp_barrier", "registers", *staging, *residuals, *overlap, *copies)

    @property
    def roles(self) -> HaloRoles:
        products = self.warpgroup_products(self.instruction, self.pixels, "wgmma_windows")
        strided = self.windows.strided
        return HaloRoles(
            **vars(products),
            staged=self.staged,
            write_sums=file_of_outputs(self.staged),
            residual_in_smem=self.residual_in_smem,
            strided=strided,
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
    in_slabs = (
        Constant("ROW", windows.row, "bytes of a pixel in a slab"),
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


def weight_bytes(problem: Conv2d, config: Halo) -> int:
    windows = Windows.of(problem, config.rows)
    return problem.r * problem.s * windows.slabs * config.channels * windows.row


def products(problem: Conv2d, config: Halo) -> int:
    return weight_bytes(problem, config) // (64 * 32)


def file_of_outputs(staged: bool) -> str:
    """What makes outputs of a tile's sums."""
    return f"conv2d/halo_{'staged' if staged else 'direct'}.j2"


def is_staged(problem: Conv2d) -> bool:
    """Whether outputs leave by the copy engine: bytes, in rows of whole chunks."""
    return problem.quantization.types.y.bytes == 1 and problem.k % CHUNK == 0


def is_residual_staged(problem: Conv2d) -> bool:
    """Whether residuals come by the copy engine: bytes as well, and with the one window of a tile."""
    residual, strided = problem.quantization.types.residual, Windows.of(problem, 1).strided
    return is_staged(problem) and residual is not None and residual.bytes == 1 and not strided


def maps(problem: Conv2d, config: Halo, weight_rows: int) -> tuple[TensorMap, TensorMap]:
    """A slab of a window, and of a tap's weights for a tile's channels. Channels past the last are zeros of x, whatever
    the weights have there."""
    windows = Windows.of(problem, config.rows)
    row, steps = windows.row, (windows.row_step, problem.stride[1])
    span_h, span_w = (windows.rows - 1) * steps[0] + 1, (windows.columns - 1) * steps[1] + 1
    w_type = problem.quantization.types.w.name
    of_weights = tensor_map.matrix("weights", w_type, weight_rows, problem.reduction, config.channels, row, swizzle=row)
    return tensor_map.window(problem, span_h, span_w, row, steps, swizzle=row), of_weights


def tile_map(problem: Conv2d, config: Halo, array: str) -> TensorMap:
    """A tile of the outputs, or of the residuals: what lies outside of the image is not written, and zeros."""
    t = problem.quantization.types
    element = t.y if array == "y" else t.residual
    assert element is not None
    box = config.channels, COLUMNS, config.rows, 1
    return tensor_map.of_outputs(problem, array, element.name, box, swizzle=config.channels)


def why_none(problem: Conv2d, target: Target) -> str | None:
    """What stands against every config."""
    return wgmma.why_none(problem, target)


def plan(problem: Conv2d, config: Halo, target: Target) -> HaloPlan:
    check_choices(config, CHOICES)
    instruction = warpgroup_of(target, why_none(problem, target))
    seen = as_seen(problem)
    _check_useful(seen, config)
    slots = _slots(problem, config, target)
    made = HaloPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        slots=slots,
        smem_bytes=_smem_bytes(problem, config, slots),
        **vars(ImageTiles.of(seen, config.rows, COLUMNS, config.channels, target)),
    )
    made.check_sizes(made.pixels)
    at_most(made.weight_words, 2**29 - 1, "words of weights")
    # The maps refuse what the copy engine cannot copy.
    assert made.fields
    return made


def _slots(problem: Conv2d, config: Halo, target: Target) -> int:
    """Windows have the room that weights and outputs leave."""
    of_slot = _smem_bytes(problem, config, 1) - _smem_bytes(problem, config, 0)
    left = target.smem_bytes - _smem_bytes(problem, config, 0)
    # A slot's mbarriers are few bytes, but may begin another multiple of what a swizzle repeats after.
    windows = Windows.of(problem, config.rows).count
    slots, least = min(MOST_SLOTS * windows, (left - REPEATS) // of_slot), windows + 1
    if slots < least:
        at_most(_smem_bytes(problem, config, least), target.smem_bytes, f"bytes of shared memory on {target.name}")
        slots = least
    return slots


def _smem_bytes(problem: Conv2d, config: Halo, slots: int) -> int:
    """The weights, windows with their residuals, the outputs of each consumer where they are staged, and mbarriers."""
    tile = COLUMNS * config.rows * config.channels
    window = Windows.of(problem, config.rows).room + tile * is_residual_staged(problem)
    staged = config.consumers * tile * is_staged(problem)
    mbarriers = 2 * slots + 1 + config.consumers
    whole = weight_bytes(problem, config) + slots * window + staged + mbarriers * MBARRIER_BYTES
    return ceil_div(whole, REPEATS) * REPEATS


def _check_useful(problem: Conv2d, config: Halo) -> None:
    """Refuses configs of which most of a tile is wasted, or whose sums leave no registers."""
    at_most(config.channels, max(64, 2 * problem.k - 1), f"channels of a tile (the problem has {problem.k})")
    at_most(config.rows, max(CHOICES["rows"][0], 2 * problem.oh - 1), f"rows of a tile (the problem has {problem.oh})")
    at_most(products(problem, config), MOST_PRODUCTS, "products of a tile, which are written out")
    sums = config.channels // 64 * config.rows * 4
    at_most(sums, REGISTERS[config.consumers][1] - BESIDE_SUMS, "registers of a thread for sums")


def structure(config: Halo) -> tuple[int, ...]:
    return config.consumers, config.channels


FAMILY = Family(("conv2d",), Halo, CHOICES, plan, why_none=why_none, structure=structure)
