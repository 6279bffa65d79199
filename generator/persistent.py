"""Plans of persistent blocks that read tiles through tensor maps: the grid, launches that overlap, and the offsets at
the borders of the image.

TMA pads with zeros. Where the input has a zero point, the offset of an output therefore depends on which taps lie
inside the image. `Borders` divides the outputs into classes that have the same taps inside.

A `SlabPlan` multiplies in slabs of the reduction. For each slab TMA copies 128 bytes of every pixel of a tile, in
im2col order with zeros for taps outside the image, and 128 bytes of every output channel's weights.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from qconv.errors import Infeasible
from qconv.generator import tensor_map
from qconv.generator.convolution import (
    FOLD_THREADS,
    REPACK_THREADS,
    ConvolutionPlan,
    fold_constants,
    fold_launches,
    pads_with_zero_point,
)
from qconv.generator.plan import Constant, Field, Launch, Roles, WaitingPlan, at_most, ceil_div
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d
from qconv.problem.frames import Frames
from qconv.targets.instruction import Multiplies, WarpgroupInstruction
from qconv.targets.target import Target

# Bytes of the reduction per slab, which is one row of a 128-byte swizzle.
SLAB = 128
MBARRIER_BYTES = 8


class StagedResidual(NamedTuple):
    """How a lane reads a residual of one byte from shared memory: the C++ type that the epilogue receives, and the
    function that takes it from a word."""

    ctype: str
    function: str


def of_staged(problem: Conv2d) -> StagedResidual:
    """Return integers as floats, and narrow floats as their bits."""
    if problem.quantization.types.residual_is_integer:
        return StagedResidual("float", "byte_as_float")
    return StagedResidual("int", "byte_as_int")


@dataclass(frozen=True)
class Axis:
    """Output rows or columns, divided by the image's borders. Each of the first `before` and the last `behind` is a
    class of its own, because its window crosses a border; all between them form one class."""

    before: int
    behind: int
    classes: int

    @classmethod
    def of(cls, size: int, outputs: int, span: int, stride: int, pad: int) -> Axis:
        """Divide `outputs` positions. `span` is the distance from a window's first element to its last."""
        before = min(outputs, ceil_div(pad, stride))
        # The first output whose window reaches beyond the last element.
        first_behind = max(0, (size - 1 - span + pad) // stride + 1)
        behind = outputs - min(outputs, first_behind)
        if before + behind >= outputs:
            return cls(outputs, 0, outputs)
        return cls(before, behind, before + 1 + behind)


@dataclass(frozen=True)
class Borders:
    images: Axis | None  # of a volume
    rows: Axis
    columns: Axis

    @classmethod
    def of(cls, problem: Conv2d) -> Borders:
        span_h, span_w = (problem.r - 1) * problem.dilation[0], (problem.s - 1) * problem.dilation[1]
        return cls(
            _images_of(problem.frames),
            Axis.of(problem.h, problem.oh, span_h, problem.stride[0], problem.pad[0]),
            Axis.of(problem.w, problem.ow, span_w, problem.stride[1], problem.pad[1]),
        )

    @classmethod
    def where_needed(cls, problem: Conv2d) -> Borders | None:
        """Return None where x_zero_point contributes the same to all pixels of a channel."""
        return cls.of(problem) if pads_with_zero_point(problem) else None

    @property
    def classes(self) -> int:
        return self.rows.classes * self.columns.classes * (1 if self.images is None else self.images.classes)

    @property
    def constants(self) -> tuple[Constant, ...]:
        return (
            *self._image_constants,
            Constant("ROWS_BEFORE", self.rows.before, "output rows whose windows cross the image's first row"),
            Constant("ROWS_BEHIND", self.rows.behind, "output rows whose windows cross its last row"),
            Constant("ROW_CLASSES", self.rows.classes),
            Constant("COLUMNS_BEFORE", self.columns.before),
            Constant("COLUMNS_BEHIND", self.columns.behind),
            Constant("COLUMN_CLASSES", self.columns.classes),
        )

    @property
    def _image_constants(self) -> tuple[Constant, ...]:
        if self.images is None:
            return ()
        return (
            Constant("IMAGES_BEFORE", self.images.before, "images of a volume with frames before its first"),
            Constant("IMAGES_BEHIND", self.images.behind, "images with frames behind its last"),
            Constant("IMAGE_CLASSES", self.images.classes),
        )


def _images_of(frames: Frames | None) -> Axis | None:
    if frames is None:
        return None
    return Axis.of(frames.depth, frames.images, frames.span, frames.stride, frames.before)


@dataclass(frozen=True, kw_only=True)
class BorderRoles(Roles):
    """How a page finds what x_zero_point contributes to a pixel."""

    borders: bool  # the offset from x_zero_point depends on which taps lie in the image
    border_of: str  # template file with the classes of pixels at the borders
    fold_borders: str  # template file of the kernel that computes their offsets
    taps_at_borders: str  # template file that adds the weights of the taps inside up


@dataclass(frozen=True, kw_only=True)
class Products(BorderRoles):
    """How a page emits a warpgroup's multiplications and addresses their sums."""

    operation: str  # template file with the instruction
    spelled: str  # mnemonic in PTX
    immediates: str  # its last operands
    w_signed: str  # C++ literal: true or false
    x_signed: str
    a_word: str  # of floats: the prelude's C++ type that reads the elements of A from a word
    b_word: str
    lost_bits: int  # lowest bits of a float's fraction that the instruction's sums are without
    sum_registers: tuple[str, ...]  # per eight columns, the instruction's operands that hold their sums
    atoms: int
    filters_in_registers: bool = False  # otherwise they are in shared memory, as the pixels are
    gathers: bool = False  # the producer's lanes load the pixels, instead of TMA
    merges_columns: bool = False  # neighbouring columns of x are the channels of one pixel
    repack_threads: int = REPACK_THREADS


@dataclass(frozen=True)
class PersistentPlan(WaitingPlan, ConvolutionPlan):
    """The plan of persistent blocks, each of which takes tiles one after the other."""

    smem_bytes: int
    channel_tiles: int
    tiles: int
    blocks: int

    @cached_property
    def borders(self) -> Borders | None:
        """The border classes, or None where x_zero_point contributes the same to all pixels of a channel."""
        return Borders.where_needed(self.problem)

    @property
    def border_roles(self) -> BorderRoles:
        return BorderRoles(
            borders=self.borders is not None,
            border_of=self.border_of,
            fold_borders=self.fold_borders,
            taps_at_borders=self.taps_at_borders,
        )

    @property
    def border_of(self) -> str:
        """The template file with the classes of pixels."""
        return "nothing.j2" if self.borders is None else f"families/wgmma/border_of_{self.context.x_is}.j2"

    @property
    def fold_borders(self) -> str:
        """The template file of the kernel that computes their offsets."""
        return "nothing.j2" if self.borders is None else "families/wgmma/fold_borders.j2"

    @property
    def taps_at_borders(self) -> str:
        """The template file that adds the weights of a class's taps up."""
        return f"families/wgmma/taps_of_{self.context.x_is}.j2"

    @property
    def repack(self) -> str:
        """The template file of the kernel that rearranges weights of whole words into rows of the product."""
        wide = self.problem.quantization.types.w.bytes > 1
        return f"families/wgmma/repack{'_wide' * wide}.j2"

    def aligned(self, vector_k: int, y_in_chunks: bool = False, residual_in_chunks: bool = False) -> dict[str, int]:
        """Return the alignment of each array: lanes move `vector_k` channels at once, TMA moves chunks."""
        t = self.problem.quantization.types
        found = {"x": CHUNK, "w": 4, "y": CHUNK if y_in_chunks else vector_k * t.y.bytes}
        if t.residual is None:
            return found
        return found | {"residual": CHUNK if residual_in_chunks else vector_k * t.residual.bytes}

    @cached_property
    def fold_launches(self) -> tuple[Launch, ...]:
        if self.borders is None:
            return fold_launches(self.problem)
        blocks = ceil_div(self.borders.classes * self.problem.k, FOLD_THREADS)
        of_borders = Launch("conv2d_fold_borders", (blocks, 1, 1), FOLD_THREADS, 0, "prepare")
        return (*fold_launches(self.problem), of_borders)

    @cached_property
    def border_fields(self) -> tuple[Field, ...]:
        if self.borders is None:
            return ()
        elements = self.borders.classes * self.problem.k
        return (Field("borders", "int*", "workspace", "offsets by class of pixels and output channel", None, elements),)

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads per block."""

    def role_constants(self, of_producer: int, of_consumer: int) -> tuple[Constant, ...]:
        """Return the constants of the warp specialization. Registers are per thread, as set by setmaxnreg once a warp
        knows its role."""
        return (
            Constant("WARP_SIZE", self.target.warp_size),
            Constant("THREADS", self.threads),
            Constant("PRODUCER_REGISTERS", of_producer, "registers per producer thread"),
            Constant("CONSUMER_REGISTERS", of_consumer, "registers per consumer thread"),
        )

    @property
    def tile_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("CHANNEL_TILES", self.channel_tiles),
            Constant("TILES", self.tiles),
            Constant("BLOCKS", self.blocks, "persistent blocks; each takes every BLOCKS-th tile"),
        )

    def image_constants(self, down: int, across: int, weight_rows: int) -> tuple[Constant, ...]:
        """Return the constants of a grid of tiles over an image, in which a block keeps its output channels."""
        return (
            Constant("TILES_DOWN", down, "tiles per image, vertically"),
            Constant("TILES_ACROSS", across, "tiles per image, horizontally"),
            *self.tile_constants,
            Constant("WEIGHT_ROWS", weight_rows, "output channels, padded with zeros to whole tiles"),
        )

    @property
    def last_constants(self) -> tuple[Constant, ...]:
        return (
            *(() if self.borders is None else self.borders.constants),
            Constant("SMEM_BYTES", self.smem_bytes),
            *fold_constants(self.problem),
        )

    def warpgroup_products(
        self, instruction: WarpgroupInstruction, columns: int, operation: str, pixel_rows: bool = False
    ) -> Products:
        """Return the roles for products of `columns` columns. Columns are pixels, or channels where `pixel_rows` makes
        pixels the rows."""
        t, emulated = self.problem.quantization.types, "_emulated" if self.target.vendor == "cpu" else ""
        eights = (range(at, at + 4) for at in range(0, columns // 2, 4))
        rows_type, columns_type = (t.x, t.w) if pixel_rows else (t.w, t.x)
        return Products(
            **vars(self.border_roles),
            operation=f"instruction/{operation}{emulated}.j2",
            spelled=instruction.spell(columns, rows_type.name, columns_type.name),
            immediates=instruction.immediates,
            w_signed=str(t.w.is_signed).lower(),
            x_signed=str(t.x.is_signed).lower(),
            a_word=rows_type.word,
            b_word=columns_type.word,
            lost_bits=instruction.lost_bits,
            sum_registers=tuple(", ".join(f"%{number}" for number in eight) for eight in eights),
            atoms=columns // 8,
        )

    def check_sizes(self, tile_pixels: int) -> None:
        """Check the largest numbers that a page computes: the index of a pixel past the last tile, and of a border
        offset."""
        along_pixels = ceil_div(self.tiles, self.channel_tiles) + self.target.processors
        at_most(tile_pixels * along_pixels, 2**31 - 1, "pixels of whole tiles")
        if self.borders is not None:
            at_most(self.borders.classes * self.problem.k, 2**24, "offsets of classes of pixels")


def map_fields(maps: Mapping[str, tuple[str, TensorMap]]) -> tuple[Field, ...]:
    """Return the fields of tensor maps. `maps` gives, by field name, the field's description and the map."""
    return tuple(
        Field(name, "tile::TensorMap", "tensor_map", says, tensor_map=made) for name, (says, made) in maps.items()
    )


@dataclass(frozen=True)
class ImageTiles:
    """A grid of tiles over the rows and columns of images, in which each block keeps its output channels."""

    channel_tiles: int
    tiles: int
    blocks: int

    @classmethod
    def of(cls, problem: Conv2d, rows: int, columns: int, channels: int, resident: int) -> ImageTiles:
        """Divide the outputs. The number of blocks (or of clusters that share a tile) is at most `resident`."""
        # Lanes compute the address of a tile's outputs even past the image's last row.
        outputs = problem.n * (problem.oh + rows) * (problem.ow + columns) * problem.k
        at_most(outputs, 2**31 - 1, "outputs of whole tiles")
        channel_tiles = ceil_div(problem.k, channels)
        of_channels = problem.n * ceil_div(problem.oh, rows) * ceil_div(problem.ow, columns)
        blocks = channel_tiles * min(of_channels, max(1, resident // channel_tiles))
        return cls(channel_tiles, channel_tiles * of_channels, blocks)


def warpgroup_of(problem: Conv2d, target: Target, reason: str | None) -> WarpgroupInstruction:
    """Return the target's warpgroup instruction. Raises Infeasible with `reason` where there is one."""
    if reason is not None:
        raise Infeasible(reason)
    t = problem.quantization.types
    found = target.warpgroup_for(t.w, t.x)
    assert found is not None
    return found


def why_not(problem: Conv2d, instruction: Multiplies) -> str | None:
    """Return why this instruction cannot multiply pixels that tensor maps copy, or None."""
    if (reason := why_not_multiplied(problem, instruction)) is not None:
        return reason
    if problem.frame_bytes % CHUNK:
        return f"c={problem.frame_c}: TMA copies multiples of 16 bytes per pixel; pad the channels, or use mma"
    return None


def why_not_multiplied(problem: Conv2d, instruction: Multiplies) -> str | None:
    """Return why this instruction cannot serve the problem, however its pixels are loaded, or None."""
    t = problem.quantization.types
    if not instruction.serves(t.w, t.x):
        return f"{t.w.name} by {t.x.name}: {instruction.name} does not multiply these; mma serves it"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: the channels of a pixel must lie side by side, as in nhwc"
    if problem.groups != 1:
        return f"groups={problem.groups}: a tile of output channels must look at the same inputs; mma serves it"
    if problem.quantization.w_zero_point:
        return "w_zero_point: the sums of the inputs' windows are not computed here; mma serves it"
    return None


@dataclass(frozen=True)
class SlabPlan(PersistentPlan):
    """The plan of persistent blocks that multiply the slabs of a tile one after the other."""

    @property
    def slab(self) -> int:
        """Bytes of the reduction per slab, which is one row of the swizzle."""
        return SLAB

    @property
    def slabs(self) -> int:
        return self.problem.taps * ceil_div(self.problem.frame_c, self.slab_channels)

    @property
    def slab_channels(self) -> int:
        return self.slab // self.problem.quantization.types.x.bytes

    @property
    def slab_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("SLAB", self.slab, "bytes of the reduction per slab"),
            Constant("SLAB_CHANNELS", self.slab_channels, "input channels per slab"),
            Constant("SLABS", self.slabs, f"slabs per tile: all taps of each {self.slab_channels} channels"),
        )


def slab_maps(
    problem: Conv2d, pixels: int, weights: str, rows: int, channels: int, slab: int = SLAB
) -> tuple[TensorMap, TensorMap]:
    """Return the tensor maps of the pixels (`pixels` per slab) and of the weights (`channels` of the array's `rows` per
    slab). Channels of x past the last are zeros, whatever the weights have there."""
    t = problem.quantization.types
    of_slab = slab // t.x.bytes
    of_pixels = tensor_map.im2col(problem, of_slab, pixels, swizzle=slab)
    of_weights = tensor_map.matrix(weights, t.w.name, rows, problem.reduction, channels, of_slab, swizzle=slab)
    return replace(of_pixels, l2_promotion=256), replace(of_weights, l2_promotion=256)
