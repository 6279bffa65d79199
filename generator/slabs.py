"""What the families that multiply slabs by a warpgroup's instruction, or in tensor memory, have in common: the copy
engine (TMA) brings so many bytes of every pixel of a tile, in im2col order, and of every channel's weights, and zeros
for taps outside of the image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from qconv.generator import tensor_map
from qconv.generator.convolution import (
    FOLD_THREADS,
    ConvolutionPlan,
    fold_constants,
    fold_launches,
    pads_with_zero_point,
    why_not_bytes,
)
from qconv.generator.plan import Constant, Field, Launch, at_most, ceil_div
from qconv.generator.tensor_map import TensorMap
from qconv.generator.wgmma_borders import Borders
from qconv.generator.wgmma_slots import SLAB
from qconv.instruction import Multiplies
from qconv.problem import Conv2d


@dataclass(frozen=True)
class SlabPlan(ConvolutionPlan):
    """The plan of persistent blocks, which have tiles in turn."""

    smem_bytes: int
    channel_tiles: int
    tiles: int
    blocks: int

    @property
    def slab(self) -> int:
        """Bytes of a pixel, and of a channel's weights, that are multiplied together: what a swizzle exchanges."""
        return SLAB

    @property
    def slabs(self) -> int:
        return self.problem.r * self.problem.s * ceil_div(self.problem.c, self.slab)

    @cached_property
    def borders(self) -> Borders | None:
        """None where what x_zero_point adds is the same for all pixels of a channel."""
        return Borders.of(self.problem) if pads_with_zero_point(self.problem) else None

    @property
    def overlaps(self) -> bool:
        return self.target.overlaps_launches

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
        return (Field("borders", "int*", "workspace", "offset, for each class of pixels", None, elements),)

    @property
    def slab_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("SLAB", self.slab, "bytes of the reduction that are multiplied together"),
            Constant("SLABS", self.slabs, f"of a tile: for each {self.slab} channels, all taps"),
        )

    @property
    def tile_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("CHANNEL_TILES", self.channel_tiles),
            Constant("TILES", self.tiles),
            Constant("BLOCKS", self.blocks, "which have tiles in turn"),
        )

    @property
    def last_constants(self) -> tuple[Constant, ...]:
        return (
            *(() if self.borders is None else self.borders.constants),
            Constant("SMEM_BYTES", self.smem_bytes),
            *fold_constants(self.problem),
        )

    def check_sizes(self, tile_pixels: int) -> None:
        """The largest numbers that a page computes: a pixel of a tile past the last, and a class's offset."""
        along_pixels = ceil_div(self.tiles, self.channel_tiles) + self.target.processors
        at_most(tile_pixels * along_pixels, 2**31 - 1, "pixels of whole tiles")
        if self.borders is not None:
            at_most(self.borders.classes * self.problem.k, 2**24, "offsets of classes of pixels")


def maps(
    problem: Conv2d, pixels: int, weights: str, rows: int, channels: int, slab: int = SLAB
) -> tuple[TensorMap, TensorMap]:
    """Slabs of so many pixels, and of so many channels of an array of weights that has so many rows. Channels past the
    last are zeros of x, whatever the weights have there."""
    of_pixels = tensor_map.im2col(problem, slab, pixels, swizzle=slab)
    w_type = problem.quantization.types.w.name
    of_weights = tensor_map.matrix(weights, w_type, rows, problem.reduction, channels, slab, swizzle=slab)
    return replace(of_pixels, l2_promotion=256), replace(of_weights, l2_promotion=256)


def why_not(problem: Conv2d, instruction: Multiplies) -> str | None:
    """What stands against slabs that this instruction multiplies."""
    t = problem.quantization.types
    if (reason := why_not_bytes(problem)) is not None:
        return reason
    if not instruction.serves(t.w, t.x):
        return f"{t.w.name} by {t.x.name}: {instruction.name} does not multiply these; mma serves it"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: the channels of a pixel must lie side by side, as in nhwc"
    if problem.groups != 1:
        return f"groups={problem.groups}: a tile of output channels must look at the same inputs; mma serves it"
    if problem.c % 16:
        return f"c={problem.c}: the copy engine moves pixels of whole 16 bytes; pad the channels, or use mma"
    if problem.quantization.w_zero_point:
        return "w_zero_point: the sums of the inputs' windows are not computed here; mma serves it"
    return None
