"""The `stem_wgmma` family: first layers of three or four channels and a stride of two, on `wgmma`.

Two by two pixels of four channels are a cell, the 16 bytes of a tap (space to depth); of elements of two bytes, two
neighbouring pixels are. A producer's warps make cells of the image that TMA brings, and every tap reads them in place,
as in `halo`. The filters stay in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from qconv.generator import tensor_map
from qconv.generator.convolution import (
    argument_fields,
    pads_with_zero_point,
    problem_constants,
    repack_launch,
    why_not_promoted,
)
from qconv.generator.cost_units import at_once, moved_bytes, of_activation
from qconv.generator.families import Family
from qconv.generator.families.halo.config import GROUP_THREADS
from qconv.generator.families.halo.plan import HaloRoles, file_of_outputs, is_staged
from qconv.generator.families.halo.windows import COLUMNS, REPEATS
from qconv.generator.persistent import MBARRIER_BYTES, ImageTiles, PersistentPlan, map_fields, warpgroup_of
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import WarpgroupInstruction
from qconv.targets.target import Target

# Output channels of a tile: the rows of an instruction.
CHANNELS = 64
# Pixels of a cell across, and the stride.
CELL = 2
# Windows of cells that are made or multiplied, and images of tiles that are in flight.
WINDOWS, IMAGES = 4, 8
# Alignment of a copy in shared memory, in bytes.
COPY_ALIGNMENT = 128
# Registers per thread of the producer and of a consumer, by the number of consumers. BESIDE_SUMS of a consumer's are
# for other things than sums and filters.
REGISTERS = {2: (72, 216), 3: (56, 152)}
BESIDE_SUMS = 56


@dataclass(frozen=True)
class StemWgmma(Config):
    family: ClassVar[str] = "stem_wgmma"
    rows: int  # of a tile, which is eight pixels wide
    consumers: int  # warpgroups that multiply, in turn
    team: int  # warps that make the cells of a tile


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (4, 8, 10, 12, 14, 16, 20, 24, 28),
    "consumers": (2, 3),
    "team": (1, 4),
}


@dataclass(frozen=True)
class Cells:
    """The cells that a tile depends on.

    They begin at multiples of a cell down, and across at multiples of as many pixels as begin with a word of the image:
    two cells of bytes, one of elements of two bytes. So a filter's first tap may lie within a cell.
    """

    element_bytes: int
    before: tuple[int, int]  # pixels of the image above and left of the first output, from which cells are counted
    taps: tuple[int, int]  # cells that a window spans, down and across, past those that are skipped
    skipped: int  # cells of a row in front of the first tap

    @classmethod
    def of(cls, problem: Conv2d) -> Cells:
        top, left = problem.pad[:2]
        element_bytes = problem.quantization.types.x.bytes
        height, whole = CELL // element_bytes, 4 // element_bytes
        above, ahead = ceil_div(top, height) * height, ceil_div(left, whole) * whole
        skipped = (ahead - left) // CELL
        down, across = ceil_div(above - top + problem.r, height), ceil_div(ahead - left + problem.s, CELL) - skipped
        return cls(element_bytes, (above, ahead), (down, across), skipped)

    @property
    def height(self) -> int:
        """Pixels of a cell, down."""
        return CELL // self.element_bytes

    @property
    def made_at_once(self) -> int:
        """Neighbouring cells that a lane makes at once: those of whole words of the image."""
        return 4 // self.element_bytes // CELL

    @property
    def row_steps(self) -> int:
        """Instructions of a row of taps: each has two side by side."""
        return ceil_div(self.taps[1], 2)

    @property
    def steps(self) -> int:
        return self.taps[0] * self.row_steps

    def window(self, rows: int) -> tuple[int, int]:
        """Rows and columns of cells for a tile of `rows` rows."""
        across = self.skipped + COLUMNS - 1 + 2 * self.row_steps
        down = (rows - 1) * (CELL // self.height) + self.taps[0]
        return down, ceil_div(across, self.made_at_once) * self.made_at_once

    def chunk_shift(self, problem: Conv2d) -> int:
        """Bytes from the chunk that a copy begins with to the first of its cells."""
        return -self.before[1] * problem.pixel_bytes % CHUNK

    def image_bytes(self, problem: Conv2d, rows: int) -> int:
        """Bytes that TMA copies of a row of the image."""
        _, across = self.window(rows)
        return ceil_div(self.chunk_shift(problem) + across * CELL * problem.pixel_bytes, CHUNK) * CHUNK


@dataclass(frozen=True, kw_only=True)
class StemWgmmaRoles(HaloRoles):
    elements: str  # folder of the files that make and read cells of bytes, or of halves
    square: bool  # cells have two rows of pixels
    staged_tiles: str  # what outputs are staged in, if they are
    pads: bool  # whether the producer's warps write padding outside of the image
    tiles: str = "families/halo/tiles.j2"


@dataclass(frozen=True)
class StemWgmmaPlan(PersistentPlan):
    page: ClassVar[str] = "families/stem_wgmma/page.j2"

    config: StemWgmma
    instruction: WarpgroupInstruction
    cells: Cells

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.config.consumers

    @property
    def rows(self) -> int:
        """Rows of sums of a tile."""
        return self.config.rows

    @property
    def reshaped(self) -> Conv2d:
        """The convolution whose tiles are counted."""
        return self.problem

    @property
    def pixels(self) -> int:
        """Pixels of a tile, which are the columns of an instruction."""
        return COLUMNS * self.rows

    @property
    def steps(self) -> int:
        return self.cells.steps

    @property
    def pairs(self) -> int:
        """Pairs of cells per tile: a lane makes a pair at a time, or its half."""
        down, across = self.cells.window(self.rows)
        return ceil_div(down * across, 2)

    @property
    def staged(self) -> bool:
        return staged_bytes(self.problem) > 0

    @property
    def stored(self) -> tuple[int, int]:
        """Columns and rows of a tile of the output."""
        return COLUMNS, self.rows

    @property
    def write_sums(self) -> str:
        """The file that makes outputs of a tile's sums."""
        return file_of_outputs(self.staged)

    @property
    def threads(self) -> int:
        return GROUP_THREADS * (self.consumers + 1)

    @property
    def weight_rows(self) -> int:
        """Output channels, with rows of zeros that fill the last tile."""
        return CHANNELS * self.channel_tiles

    @property
    def weight_words(self) -> int:
        """A step has two taps of four words."""
        return self.weight_rows * self.cells.steps * 8

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_stem_wgmma", (self.blocks, 1, 1), self.threads, self.smem_bytes)
        return (*self.fold_launches, repack_launch(self.weight_words), main)

    @cached_property
    def borders(self) -> None:
        """None: cells have x_zero as padding, so that it adds the same to all pixels."""

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "the filters as the lanes of a consumer hold them"
        fragments = Field("fragments", "int*", "workspace", says, None, self.weight_words)
        return argument_fields(self.problem, (fragments, *self._map_fields))

    @property
    def _map_fields(self) -> tuple[Field, ...]:
        found = {"image_map": ("of x", self._image_map)}
        if self.staged:
            found["output_map"] = "of y", self._output_map
        return map_fields(found)

    @property
    def _image_map(self) -> TensorMap:
        """The map of the image of a tile: rows of elements, without regard to pixels."""
        problem = self.reshaped
        x, row = problem.quantization.types.x, problem.w * problem.c
        down, _ = self.cells.window(self.rows)
        box = self.cells.image_bytes(problem, self.rows) // x.bytes, down * self.cells.height, 1
        strides = row * x.bytes, problem.h * row * x.bytes
        return TensorMap("x", x.name, (row, problem.h, problem.n), strides, box)

    @property
    def _output_map(self) -> TensorMap:
        columns, rows = self.stored
        box = CHANNELS, columns, rows, 1
        y_type = self.problem.quantization.types.y
        return tensor_map.of_outputs(self.problem, "y", y_type.name, box, swizzle=CHANNELS * y_type.bytes)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return self.aligned(self.vector_k, y_in_chunks=self.staged) | {"w": self.cells.element_bytes}

    @property
    def vector_k(self) -> int:
        """Neighbouring channels of a pixel that a lane writes at once: both exist or none."""
        return 2 if self.problem.k % 2 == 0 else 1

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, "tensors", "async_proxy")

    @property
    def roles(self) -> StemWgmmaRoles:
        products = self.warpgroup_products(self.instruction, self.pixels, "wgmma_filters")
        square = self.cells.height == CELL
        own = {"filters_in_registers": True, "immediates": self.instruction.immediates_of_registers}
        roles = StemWgmmaRoles(
            **vars(products) | own,
            elements=f"families/stem_wgmma/{'bytes' if square else 'halves'}",
            square=square,
            staged=self.staged,
            staged_tiles="families/halo/staged_tiles.j2" if self.staged else "nothing.j2",
            write_sums=self.write_sums,
            pads=pads_with_zero_point(self.reshaped),
        )
        if staged_bytes(self.problem) < 2:
            return roles
        folder = "families/stem_wgmma/two_bytes"
        rows, stage, tiles = (f"{folder}/{name}.j2" for name in ("rows", "stage", "staged_tiles"))
        return replace(roles, product_rows=rows, stage_tile=stage, staged_tiles=tiles)

    @property
    def down(self) -> int:
        """Tiles of an image."""
        return ceil_div(self.problem.oh, self.rows)

    @property
    def across(self) -> int:
        return ceil_div(self.problem.ow, COLUMNS)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.reshaped, filter_rows=True),
            **self.pool_constants,
            "The config.": (*self.config_constants, *self.role_counts),
            "What follows.": (
                *self.cell_constants,
                *self.image_constants(self.down, self.across, self.weight_rows),
                *self.vector_constants,
                *self.last_constants,
            ),
        }

    @property
    def pool_constants(self) -> dict[str, tuple[Constant, ...]]:
        """Constants of a pool behind the convolution: this family has none."""
        return {}

    @property
    def config_constants(self) -> tuple[Constant, ...]:
        return (Constant("TILE_H", self.rows, "output rows of a tile, which is eight pixels wide"),)

    @property
    def role_counts(self) -> tuple[Constant, ...]:
        return (
            Constant("CONSUMERS", self.consumers, "warpgroups that multiply, in turn"),
            Constant("TEAM", self.config.team, "warps that make the cells of a tile"),
        )

    @property
    def vector_constants(self) -> tuple[Constant, ...]:
        """Constants of lanes that write device memory."""
        return () if self.staged else (Constant("VECTOR_K", self.vector_k, "channels that a lane writes at once"),)

    @property
    def cell_constants(self) -> tuple[Constant, ...]:
        cells, (down, across) = self.cells, self.cells.window(self.rows)
        shift = cells.chunk_shift(self.reshaped)
        return (
            *self.role_constants(*REGISTERS[self.consumers]),
            Constant("TILE_M", CHANNELS, "output channels of a tile"),
            Constant("TILE_N", self.pixels, "output pixels of a tile"),
            Constant(
                "BEFORE_H",
                cells.before[0],
                "rows from the first cell to the first output's pixel, at least the padding",
            ),
            Constant("BEFORE_W", cells.before[1], "and columns"),
            Constant("SKIPPED", cells.skipped, "cells of a row in front of the first tap"),
            Constant("TAPS_H", cells.taps[0], "rows of cells that a filter spans"),
            Constant("ROW_STEPS", cells.row_steps, "instructions per row of cells, of two cells each"),
            Constant("CELLS_H", down, "rows of cells of a window"),
            Constant("CELLS_W", across, "columns of cells of a window"),
            Constant("IMAGE_BYTES", cells.image_bytes(self.reshaped, self.rows), "per row of a tile's image"),
            Constant("IMAGE_SHIFT", shift // cells.element_bytes, "elements of a row in front of the first cell"),
            Constant("IMAGES", IMAGES * self.config.team // 4, "slots of a team, for the images of its tiles"),
        )


def why_none(problem: Conv2d, target: Target) -> str | None:
    """Why no config is feasible, or None."""
    instruction, t = target.warpgroup, problem.quantization.types
    if instruction is None or not target.tensor_maps:
        return f"{target.name} has no matrix instruction of warpgroups with copies by tensor maps; stem serves it"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if problem.groups != 1 or problem.c not in (3, 4):
        return f"cells have 3 or 4 channels in one group (here c={problem.c}, groups={problem.groups}); stem serves it"
    if problem.stride != (CELL, CELL) or problem.tap_steps != (1, 1):
        return (
            f"stride={problem.stride} dilation={problem.tap_steps}: neighbouring outputs must look at neighbouring "
            "cells, of two by two pixels; stem serves it"
        )
    instruction = target.warpgroup_for(t.w, t.x)
    if instruction is None or not instruction.serves(t.w, t.x):
        return f"{t.w.name} by {t.x.name}: no matrix instruction of warpgroups multiplies these; simt serves it"
    if t.x.bytes > CELL:
        return f"{t.x.name}: the 16 bytes of a cell must have two neighbouring pixels; stem serves it"
    if problem.w * problem.pixel_bytes % CHUNK or problem.w * t.x.bytes % 4:
        return f"w={problem.w}: TMA copies rows of whole 16 bytes, in words of neighbouring pixels; stem serves it"
    if problem.quantization.w_zero_point or problem.quantization.residual != "none":
        return "w_zero_point and residuals are not for this page; stem serves them"
    return why_not_promoted(problem)


def plan(problem: Conv2d, config: StemWgmma, target: Target) -> StemWgmmaPlan:
    check_choices(config, CHOICES)
    instruction = warpgroup_of(problem, target, why_none(problem, target))
    cells = Cells.of(problem)
    # Most of a tile must be used, and sums and filters must leave registers.
    at_most(config.rows, max(CHOICES["rows"][0], 2 * problem.oh - 1), f"rows of a tile (the problem has {problem.oh})")
    check_registers(4 * (config.rows + cells.steps), config.consumers)
    made = StemWgmmaPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        cells=cells,
        smem_bytes=smem_bytes(
            cells,
            problem,
            config.rows,
            outputs=config.consumers * COLUMNS * config.rows * CHANNELS * staged_bytes(problem),
            others=config.consumers * MBARRIER_BYTES,
        ),
        **vars(ImageTiles.of(problem, config.rows, COLUMNS, CHANNELS, target.processors)),
    )
    at_most(made.smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    made.check_sizes(made.pixels)
    # The maps refuse what TMA cannot copy.
    assert made.fields
    return made


def staged_bytes(problem: Conv2d) -> int:
    """Bytes of an output that TMA stores: one, or two of a layer of floats; 0 where lanes store."""
    t = problem.quantization.types
    are_halves = t.y.bytes == 2 and not t.sum.is_integer and problem.k * t.y.bytes % CHUNK == 0
    return 2 if are_halves and not problem.is_shuffled else int(is_staged(problem))


def smem_bytes(cells: Cells, problem: Conv2d, rows: int, outputs: int, others: int) -> int:
    """Bytes of shared memory: `outputs` that are staged, windows and images with their mbarriers, and `others`."""
    down, across = cells.window(rows)
    window = _aligned(down * across * CHUNK, COPY_ALIGNMENT)
    image = _aligned(down * cells.height * cells.image_bytes(problem, rows), COPY_ALIGNMENT)
    mbarriers = 2 * (WINDOWS + IMAGES) * MBARRIER_BYTES
    whole = outputs + WINDOWS * window + IMAGES * image + mbarriers + others
    return _aligned(whole, REPEATS if outputs else COPY_ALIGNMENT)


def _aligned(size: int, alignment: int) -> int:
    return ceil_div(size, alignment) * alignment


def check_registers(kept: int, consumers: int) -> None:
    at_most(kept, REGISTERS[consumers][1] - BESIDE_SUMS, "registers of a thread for sums and filters")


def structure(config: StemWgmma) -> tuple[int, ...]:
    return config.consumers, config.team


# The cost model, in clocks, is fitted to 430 kernels of 14 layers of bytes timed on an H200. The root mean square error
# is 8 %. Layers of floats have the same constants, which nobody measured for them.
#
# Clocks of a launch: its start, the wait for the first cells, and its end.
START = 4020
# Bytes of device memory per clock and multiprocessor, without other stalls.
STREAM = 14.2
# Clocks from the last product issued for a tile to the first of the next.
TURN = 128
# Clocks to write the outputs of a tile: a fixed part, and one per eight pixels of 64 channels; the fraction by which an
# input zero point lengthens the latter.
WRITE, OF_EIGHT, OF_OFFSET = 569, 30.5, 0.24
# The part of the outputs' clocks in which nothing is multiplied: both use the same register ports.
PORTS = 0.64
# Clocks for lanes to store eight pixels of 64 channels, two channels at a time: of a consumer, and of the
# multiprocessor for the stores of all consumers.
DIRECT, STORES = 180, 97
# Clocks to make the cells of a tile: a fixed part, and one per 32 pairs, a warp's.
CELLS, OF_PAIRS = 402, 355


def cost(plan: StemWgmmaPlan) -> float:
    issued = ceil_div(plan.tiles, plan.blocks) * _tile(plan)
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 6) + START


def _tile(plan: StemWgmmaPlan) -> float:
    """Clocks per tile. One consumer multiplies at a time, while all of them write and all teams make cells."""
    config, q = plan.config, plan.problem.quantization
    products = plan.steps * max(4 * config.rows, 20)
    made = OF_EIGHT * config.rows * (1 + of_activation(plan.problem) / 8 + OF_OFFSET * q.x_zero_point)
    stored = 0 if plan.staged else config.rows * min(64, plan.problem.k) / 64 * 2 / plan.vector_k
    waited = (products + TURN + WRITE + made + DIRECT * stored) / config.consumers
    return at_once(max(waited, STORES * stored, of_cells(plan.pairs, config.team)), products + PORTS * made, 3)


def of_cells(pairs: int, team: int) -> float:
    """Clocks to make the cells of a tile, where a team has `team` of the producer's four warps."""
    return (CELLS + OF_PAIRS * ceil_div(pairs, 32 * team)) * team / 4


FAMILY = Family(
    ops=("conv2d",),
    config=StemWgmma,
    choices=CHOICES,
    plan=plan,
    cost=cost,
    why_none=why_none,
    structure=structure,
)
