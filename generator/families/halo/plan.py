"""The plan of the `halo` family: convolutions by persistent blocks whose weights stay in shared memory.

TMA brings the input of a tile once, with its halo, and every tap reads it in place through a descriptor of `wgmma`; TMA
stores the outputs as well. docs/hopper/5_halo.cu shows the idea alone. A filter of one tap has no halo: such a layer is
a copy with products hidden in it. Where a stride lies between the pixels of neighbouring outputs, a tile has several
windows, one for each remainder by the stride. Output channels are the rows of an instruction, 64 at a time; where that
wastes products, pixels are its rows and channels its columns. TMA copies whole 16 bytes: lanes of the producer bring
the pixels that are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import ClassVar, TypeVar

from qconv.generator import tensor_map
from qconv.generator.convolution import argument_fields, problem_constants, repack_launch
from qconv.generator.expect.features import filled, log, rounds
from qconv.generator.families.halo.config import (
    CHOICES,
    CHUNKS_AT_ONCE,
    GROUP_THREADS,
    WORD,
    Halo,
    check_useful,
    products,
    registers,
    why_none,
)
from qconv.generator.families.halo.windows import COLUMNS, REPEATS, STEP, MergedColumns, Windows, is_gathered, reshaped
from qconv.generator.persistent import (
    MBARRIER_BYTES,
    Borders,
    ImageTiles,
    PersistentPlan,
    Products,
    map_fields,
    of_staged,
    warpgroup_of,
)
from qconv.generator.plan import Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import WarpgroupInstruction
from qconv.targets.target import Target

# Tiles whose windows have slots: more slots keep no more copies in flight.
MOST_SLOTS = 8
SUM_BYTES = 4


def tap_bytes(problem: Conv2d) -> int:
    """Bytes of a tap's weights per output channel, in whole chunks."""
    return ceil_div(problem.pixel_bytes, CHUNK) * CHUNK


def weight_bytes(problem: Conv2d, config: Halo) -> int:
    windows = Windows.of(problem, config.rows)
    return problem.r * problem.s * windows.slabs * config.channels * windows.row


def is_staged(problem: Conv2d) -> bool:
    """True if TMA stores the outputs: bytes, in rows of whole chunks."""
    return problem.quantization.types.y.bytes == 1 and problem.k % CHUNK == 0 and not problem.is_shuffled


def is_residual_staged(problem: Conv2d, cluster_blocks: int) -> bool:
    """True if TMA loads the residuals: bytes as well, which come with the one window of a tile to its one block."""
    if cluster_blocks > 1:
        return False
    residual, one_window = problem.quantization.types.residual, not Windows.of(problem, 1).strided
    is_byte = residual is not None and residual.bytes == 1
    return is_staged(problem) and is_byte and one_window and not is_gathered(problem)


def pixel_map(problem: Conv2d, windows: Windows) -> TensorMap:
    """The map of a slab of a window. Channels past the last are zeros, whatever the weights have there."""
    row, steps = windows.row, (windows.row_step, problem.stride[1])
    span_h, span_w = (windows.rows - 1) * steps[0] + 1, (windows.columns - 1) * steps[1] + 1
    channels = row // problem.quantization.types.x.bytes
    return tensor_map.window(problem, span_h, span_w, channels, steps, swizzle=row)


def weight_map(problem: Conv2d, channels: int, row: int, weight_rows: int) -> TensorMap:
    """The map of `row` bytes of a tap's weights, for the output channels of a tile."""
    w = problem.quantization.types.w
    columns = problem.r * problem.s * tap_bytes(problem) // w.bytes
    return tensor_map.matrix("weights", w.name, weight_rows, columns, channels, row // w.bytes, swizzle=row)


def tile_map(problem: Conv2d, config: Halo, array: str, rows: int) -> TensorMap:
    """The map of `rows` rows of a tile of the outputs or of the residuals. Pixels outside of the image are not written,
    and read as zeros."""
    t = problem.quantization.types
    element = t.y if array == "y" else t.residual
    assert element is not None
    box = config.channels, COLUMNS, rows, 1
    swizzle = 0 if config.has_pixel_rows else config.channels
    return tensor_map.of_outputs(problem, array, element.name, box, swizzle=swizzle)


def slots(problem: Conv2d, config: Halo, target: Target, classes: int) -> int:
    """Return the slots of the ring: as many as weights, offsets and outputs leave room for."""
    of_slot = smem_bytes(problem, config, 1, classes) - smem_bytes(problem, config, 0, classes)
    left = target.smem_bytes - smem_bytes(problem, config, 0, classes)
    # The mbarriers of a slot are a few bytes, but may begin another 1024 bytes.
    windows = Windows.of(problem, config.rows).count
    found, least = min(MOST_SLOTS * windows, (left - REPEATS) // of_slot), windows + 1
    if found < least:
        at_most(
            smem_bytes(problem, config, least, classes), target.smem_bytes, f"bytes of shared memory on {target.name}"
        )
        found = least
    return found


def smem_bytes(problem: Conv2d, config: Halo, slots: int, classes: int) -> int:
    """Bytes of shared memory: weights, windows with their residuals, staged outputs, the sums that other blocks send,
    the offsets of classes of pixels, and mbarriers."""
    tile = COLUMNS * config.rows * config.channels
    window = Windows.of(problem, config.rows).room + tile * is_residual_staged(problem, config.cluster_blocks)
    staged = config.consumers * tile * is_staged(problem) // config.cluster_blocks
    exchanged = config.consumers * tile * SUM_BYTES * (config.cluster_blocks > 1)
    mbarriers = 2 * slots + 1 + config.consumers * (3 if config.cluster_blocks > 1 else 1)
    weights = ceil_div(weight_bytes(problem, config), REPEATS) * REPEATS
    offsets = classes * config.channels * SUM_BYTES
    whole = weights + slots * window + staged + exchanged + offsets + mbarriers * MBARRIER_BYTES
    return ceil_div(whole, REPEATS) * REPEATS


Made = TypeVar("Made", bound="HaloPlan")

# Windows in flight while the next one is asked for, where lanes copy asynchronously.
MOST_AHEAD = 3


@dataclass(frozen=True, kw_only=True)
class HaloRoles(Products):
    """The files of a page, and the structures that it has or lacks."""

    pixel_rows: bool = False  # whether pixels are the rows of the product, not output channels
    staged: bool  # whether outputs go through shared memory and TMA
    split: bool = False  # whether the blocks of a cluster compute a tile together
    residual_in_smem: bool = False  # whether residuals come with the window
    tile_at_once: bool = True  # whether all products of a tile are in flight together
    slabs: str = "SLABS"  # C++ constant: slabs of a pixel's channels in an image, or in a frame
    channels: str = "PART_C"  # C++ constant: these channels
    product_rows: str = "families/halo/channel_rows.j2"
    produce_windows: str = "families/halo/copies.j2"
    gather_windows: str = "families/halo/gather_words.j2"  # how lanes bring a window, where TMA does not
    residuals: str = "families/halo/no_residuals.j2"
    outputs: str = "families/halo/outputs.j2"
    offsets: str = "nothing.j2"
    write_sums: str
    stage_tile: str = "families/halo/stage_channel_rows.j2"
    filter: str = "families/halo/filter.j2"
    exchange: str = "families/halo/no_exchange.j2"
    prepare_kernels: tuple[str, ...] = ()  # the files of the kernels that run once for a set of weights
    residual_as: str = "int"  # the C++ type of a residual in the epilogue
    residual_byte: str = ""  # the function that makes it of a staged one


@dataclass(frozen=True)
class HaloPlan(PersistentPlan):
    page: ClassVar[str] = "families/halo/page.j2"

    config: Halo
    instruction: WarpgroupInstruction
    slots: int  # windows that are in flight or multiplied

    @property
    def pixels(self) -> int:
        """Pixels of a tile."""
        return COLUMNS * self.config.rows

    @cached_property
    def reshaped(self) -> Conv2d:
        """The convolution whose tiles are counted."""
        return reshaped(self.problem)

    @property
    def block_problem(self) -> Conv2d:
        """The part of it that a block multiplies."""
        return self.reshaped

    @property
    def own_rows(self) -> int:
        """Rows of a tile whose outputs a block makes."""
        return self.config.rows

    @cached_property
    def windows(self) -> Windows:
        return Windows.of(self.block_problem, self.config.rows)

    @cached_property
    def merged_columns(self) -> MergedColumns | None:
        return MergedColumns.of(self.problem)

    @property
    def weight_bytes(self) -> int:
        return weight_bytes(self.block_problem, self.config)

    @property
    def products(self) -> int:
        return products(self.block_problem, self.config)

    @property
    def columns(self) -> int:
        """Columns of an instruction."""
        return self.config.channels if self.config.has_pixel_rows else self.pixels

    @property
    def staged(self) -> bool:
        return is_staged(self.problem)

    @property
    def residual_in_smem(self) -> bool:
        return is_residual_staged(self.reshaped, self.config.cluster_blocks)

    @property
    def threads(self) -> int:
        return GROUP_THREADS * (self.config.consumers + 1)

    @property
    def weight_rows(self) -> int:
        """Output channels, with rows of zeros that fill the last tile."""
        return self.config.channels * self.channel_tiles

    @property
    def weight_words(self) -> int:
        return self.weight_rows * self.reshaped.r * self.reshaped.s * tap_bytes(self.reshaped) // 4

    @property
    def gathers(self) -> bool:
        """True if lanes bring the pixels."""
        return is_gathered(self.reshaped)

    @property
    def part(self) -> int:
        """Neighbouring channels that begin at a multiple of their number, in every pixel."""
        return gcd(self.reshaped.c, CHUNK)

    @property
    def lane_chunks(self) -> int:
        """Chunks of a window per lane of the producer."""
        return ceil_div(self.windows.rows * self.windows.columns * self.windows.steps * STEP // CHUNK, GROUP_THREADS)

    @property
    def copies(self) -> bool:
        """True if these lanes copy whole words asynchronously, instead of loading and storing."""
        return self.gathers and self.part >= WORD

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        cluster = self.config.cluster_blocks
        main = Launch("conv2d_halo", (self.blocks * cluster, 1, 1), self.threads, self.smem_bytes, cluster=cluster)
        return (*self.fold_launches, repack_launch(self.weight_words), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "the weights, with the rows of each 16 channels in the order of the lanes"
        weights = Field("weights", "int*", "workspace", says, None, self.weight_words)
        return argument_fields(self.problem, (weights, *self.border_fields, *self._map_fields))

    @property
    def _map_fields(self) -> tuple[Field, ...]:
        found = {} if self.gathers else {"pixel_map": ("of x", pixel_map(self.reshaped, self.windows))}
        weights = weight_map(self.reshaped, self.config.channels, self.windows.row, self.weight_rows)
        found["weight_map"] = "of the weights", weights
        if self.staged:
            found["output_map"] = "of y", tile_map(self.reshaped, self.config, "y", self.own_rows)
        if self.residual_in_smem:
            found["residual_map"] = "of the residual", tile_map(self.reshaped, self.config, "residual", self.own_rows)
        return map_fields(found)

    @cached_property
    def alignment(self) -> dict[str, int]:
        found = self.aligned(self.vector_k, y_in_chunks=self.staged, residual_in_chunks=self.residual_in_smem)
        # Filters are read byte by byte unless they are rows of the product as they lie.
        of_w = {"w": 1} if self.gathers or self.merged_columns else {}
        return found | of_w | ({"x": max(self.part, WORD)} if self.gathers else {})

    @property
    def vector_k(self) -> int:
        """Neighbouring channels of a pixel that a lane reads or writes at once: all exist or none."""
        return gcd(self.problem.y_group, 4 if self.config.has_pixel_rows else 2)

    @property
    def wants(self) -> tuple[str, ...]:
        # A producer that writes windows fences them for `wgmma`, consumers fence the tiles that they store.
        fences = self.gathers or self.staged
        return (*super().wants, "tensors", *("async_proxy",) * fences)

    @property
    def roles(self) -> HaloRoles:
        pixel_rows, merges = self.config.has_pixel_rows, self.merged_columns is not None
        products = self.warpgroup_products(self.instruction, self.columns, "wgmma_windows", pixel_rows)
        rows = "pixel" if pixel_rows else "channel"
        return HaloRoles(
            **vars(replace(products, gathers=self.gathers, merges_columns=merges)),
            pixel_rows=pixel_rows,
            staged=self.staged,
            split=self.config.cluster_blocks > 1,
            residual_in_smem=self.residual_in_smem,
            product_rows=f"families/halo/{rows}_rows.j2",
            slabs="SLABS" if self.problem.frames is None else "FRAME_SLABS",
            channels="PART_C" if self.problem.frames is None else "FRAME_C",
            produce_windows=f"families/halo/{'gather' if self.gathers else 'copies'}.j2",
            gather_windows=f"families/halo/gather_{'copies' if self.copies else 'words'}.j2",
            residuals=f"families/halo/{self._residuals}.j2",
            outputs=f"families/halo/outputs{'' if self.borders is None else '_at_borders'}.j2",
            offsets="nothing.j2" if self.borders is None else "families/halo/offsets_of_classes.j2",
            write_sums=file_of_outputs(self.staged),
            stage_tile=f"families/halo/stage_{rows}_rows.j2",
            filter=f"families/halo/filter{'_of_columns' * merges}.j2",
            exchange=f"families/halo/{'exchange' if self.config.cluster_blocks > 1 else 'no_exchange'}.j2",
            prepare_kernels=self._prepare_kernels,
            residual_as=of_staged(self.problem).ctype if self.residual_in_smem else self.context.residual_type,
            residual_byte=of_staged(self.problem).function,
        )

    @property
    def taps_at_borders(self) -> str:
        return super().taps_at_borders if self.merged_columns is None else "families/halo/taps_of_columns.j2"

    @property
    def _prepare_kernels(self) -> tuple[str, ...]:
        by_bytes = self.gathers or self.merged_columns is not None
        repack = "families/halo/repack_bytes.j2" if by_bytes else self.repack
        fold = ("convolution/fold.j2",) * self.problem.quantization.x_zero_point
        return (repack, *fold, self.fold_borders)

    @property
    def _residuals(self) -> str:
        """The file that loads residuals."""
        if self.problem.quantization.residual == "none":
            return "no_residuals"
        return "residuals_in_window" if self.residual_in_smem else "residuals_in_memory"

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": self._problem_constants,
            "The config.": self.config_constants,
            "What follows.": self._constants_that_follow,
        }

    @property
    def _problem_constants(self) -> tuple[Constant, ...]:
        found = problem_constants(self.reshaped, filter_rows=True)
        if self.merged_columns is None:
            return found
        # An output adds up the products of the problem, without those of zero columns.
        reduction = {"REDUCTION": self.problem.reduction}
        found = tuple(one._replace(value=reduction.get(one.name, one.value)) for one in found)
        return (*found, *self.merged_columns.constants)

    @property
    def config_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("TILE_H", self.config.rows, "output rows of a tile, which is eight pixels wide"),
            Constant("CONSUMERS", self.config.consumers, "warpgroups that multiply, in turn"),
            Constant("TILE_M", self.config.channels, "output channels of a tile"),
            Constant("SPLIT", self.config.cluster_blocks, "blocks of a cluster, which compute a tile together"),
        )

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        return (
            *self.role_constants(*registers(self.reshaped, self.config)),
            Constant("TILE_N", self.pixels, "output pixels of a tile"),
            *self._block_constants,
            *self._window_constants,
            *self._gathering_constants,
            Constant("SLOTS", self.slots, "windows that are in flight or multiplied"),
            Constant("RELEASES", 4 if self.gathers else 1, "per slot, by the warps of a consumer or by one thread"),
            *self.image_constants(
                tiles_down(self.reshaped, self.config), tiles_across(self.reshaped), self.weight_rows
            ),
            *self._vector_constants,
            *self.last_constants,
        )

    @property
    def _block_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("CHANNEL_BYTES", self.problem.quantization.types.x.bytes, "bytes per input channel of a pixel"),
            Constant("PART_C", self.block_problem.c, "input channels that a block multiplies"),
            Constant("OWN_ROWS", self.own_rows, "rows of a tile whose outputs a block makes"),
            Constant("TAP_BYTES", tap_bytes(self.reshaped), "weights of a tap per output channel, in whole 16 bytes"),
        )

    @property
    def _window_constants(self) -> tuple[Constant, ...]:
        windows = self.windows
        return (
            Constant("WINDOW_H", windows.rows, "rows of a window of the input"),
            Constant("WINDOW_W", windows.columns, "columns of a window"),
            Constant("ROW_STEP", windows.row_step, "rows of the input, from a row of a window to the next"),
            Constant("WINDOWS_PER_TILE", windows.count, "one for each remainder of rows and columns by the stride"),
            Constant("WINDOWS_ACROSS", windows.across, "remainders of columns"),
            Constant("ROW", windows.row, "bytes of a pixel in a slab"),
            Constant("LAST_ROW", windows.last_row, "bytes of a pixel that are multiplied in its last slab"),
            Constant("SLABS", windows.slabs, "slabs per pixel"),
            *((Constant("FRAME_SLABS", windows.frame_slabs, "of a frame"),) * (self.problem.frames is not None)),
        )

    @property
    def _gathering_constants(self) -> tuple[Constant, ...]:
        """Constants of the lanes that bring pixels."""
        if not self.gathers:
            return ()
        at_once = Constant("CHUNKS_AT_ONCE", CHUNKS_AT_ONCE, "chunks of 16 bytes in flight per lane")
        if not self.copies:
            return (at_once, Constant("X_WORDS", prod(self.problem.x_shape) // WORD, "words of the input"))
        ahead = min(MOST_AHEAD, self.slots - self.windows.count)
        queued = Constant("COPIES_IN_FLIGHT", (ahead + 1) * self.lane_chunks * CHUNK // self.part, "per thread")
        # The CPU device keeps a thread's copies in a queue.
        return (
            at_once,
            Constant("PART", self.part, "neighbouring channels of a pixel that a lane copies at once"),
            Constant("AHEAD", ahead, "windows in flight while the next one is asked for"),
            *(queued,) * (self.target.vendor == "cpu"),
        )

    @property
    def _vector_constants(self) -> tuple[Constant, ...]:
        """Constants of lanes that read or write device memory."""
        if self.staged and (self.residual_in_smem or self.problem.quantization.residual == "none"):
            return ()
        return (Constant("VECTOR_K", self.vector_k, "neighbouring channels that a lane reads or writes at once"),)


def tiles_down(problem: Conv2d, config: Halo) -> int:
    return ceil_div(problem.oh, config.rows)


def tiles_across(problem: Conv2d) -> int:
    return ceil_div(problem.ow, COLUMNS)


def file_of_outputs(staged: bool) -> str:
    """Choose the file that makes outputs of a tile's sums."""
    return f"families/halo/{'staged' if staged else 'direct'}.j2"


def plan(problem: Conv2d, config: Halo, target: Target) -> HaloPlan:
    check_choices(config, CHOICES)
    return make(HaloPlan, problem, config, target, reshaped(problem), target.processors)


def make(kind: type[Made], problem: Conv2d, config: Halo, target: Target, multiplied: Conv2d, resident: int) -> Made:
    """Return a plan whose blocks multiply `multiplied` each; `resident` blocks or clusters run at the same time."""
    instruction = warpgroup_of(problem, target, why_none(problem, target))
    check_useful(multiplied, config)
    borders = Borders.where_needed(problem)
    classes = 0 if borders is None else borders.classes
    windows = slots(multiplied, config, target, classes)
    made = kind(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        slots=windows,
        smem_bytes=smem_bytes(multiplied, config, windows, classes),
        **vars(ImageTiles.of(reshaped(problem), config.rows, COLUMNS, config.channels, resident)),
    )
    made.check_sizes(made.pixels)
    at_most(made.weight_words, 2**29 - 1, "words of weights")
    # The maps refuse what TMA cannot copy.
    assert made.fields
    return made


def features(plan: HaloPlan) -> dict[str, float]:
    """Return how full tiles are and how long a block runs, for the correction of the cost model."""
    problem, config = plan.problem, plan.config
    return {
        **rounds("rounds", "last_round", plan.tiles / plan.blocks),
        "rows_filled": filled(problem.oh, config.rows),
        "columns_filled": filled(problem.ow, COLUMNS),
        "channels": filled(problem.k, config.channels),
        "products": log(plan.products),
        "slots": log(plan.slots),
        "zeros": float(plan.windows.row - plan.windows.pixel),
    }
