"""The `tcgen05` family: implicit GEMM by persistent blocks for GPUs whose tensor cores add up in tensor memory. One
thread asks the copy engine (TMA) for pixels, in im2col order, and for weights; one asks for the products; warpgroups
write one accumulator while the other is multiplied. Pixels are the rows of the product and output channels its columns,
so that a thread of the epilogue has neighbouring channels of a pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator import tcgen05_cost, tensor_map
from qconv.generator.convolution import (
    FOLD_THREADS,
    ConvolutionPlan,
    argument_fields,
    fold_constants,
    fold_launches,
    pads_with_zero_point,
    problem_constants,
    why_not_bytes,
)
from qconv.generator.family import Family
from qconv.generator.plan import Config, Constant, Field, Launch, Roles, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import TensorMap
from qconv.generator.wgmma_borders import Borders
from qconv.instruction import TensorMemoryInstruction
from qconv.problem import Conv2d
from qconv.target import Target

# Bytes of a pixel, and of a channel's weights, that are multiplied together: what a swizzle of 128 bytes exchanges.
SLAB = 128
# Output channels whose sums a thread of the epilogue takes at once.
STRIP = 32
MBARRIER_BYTES = 8
ACCUMULATORS = 2
# The most that a thread writes at once.
STORE_BYTES = 16


@dataclass(frozen=True)
class Tcgen05(Config):
    family: ClassVar[str] = "tcgen05"
    pixels: int  # of a tile
    channels: int  # of a tile
    writers: int  # warpgroups of the epilogue
    slots: int  # of the ring of slabs

    @property
    def strips(self) -> int:
        """What the warpgroups of the epilogue divide: the 128 pixels of a product, by 32 channels."""
        return self.pixels // 128 * (self.channels // STRIP)


CHOICES: dict[str, tuple[int, ...]] = {
    "pixels": (128, 256),
    "channels": (32, 64, 96, 128, 192, 256),
    "writers": (1, 2),
    "slots": (2, 3, 4, 6, 8),
}


@dataclass(frozen=True)
class Tcgen05Roles(Roles):
    operation: str  # the file that describes the products
    spelled: str  # in PTX
    w_signed: str  # as C++ spells it
    x_signed: str
    borders: bool  # whether what x_zero_point adds depends on which taps lie in the image


@dataclass(frozen=True)
class Tcgen05Plan(ConvolutionPlan):
    page: ClassVar[str] = "conv2d/tcgen05.j2"

    problem: Conv2d
    config: Tcgen05
    instruction: TensorMemoryInstruction
    columns: int  # of tensor memory that are allocated
    smem_bytes: int
    channel_tiles: int
    tiles: int
    blocks: int

    @property
    def threads(self) -> int:
        """The warpgroups of the epilogue, a warp that fetches and one that multiplies."""
        return 128 * self.config.writers + 64

    @property
    def slabs(self) -> int:
        return self.problem.r * self.problem.s * ceil_div(self.problem.c, SLAB)

    @cached_property
    def borders(self) -> Borders | None:
        """None where what x_zero_point adds is the same for all pixels of a channel."""
        return Borders.of(self.problem) if pads_with_zero_point(self.problem) else None

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_tcgen05", (self.blocks, 1, 1), self.threads, self.smem_bytes)
        folds = list(fold_launches(self.problem))
        if self.borders is not None:
            blocks = ceil_div(self.borders.classes * self.problem.k, FOLD_THREADS)
            folds.append(Launch("conv2d_fold_borders", (blocks, 1, 1), FOLD_THREADS, 0, "prepare"))
        return (*folds, main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        of_borders: tuple[Field, ...] = ()
        if self.borders is not None:
            elements = self.borders.classes * self.problem.k
            of_borders = (Field("borders", "int*", "workspace", "offset, for each class of pixels", None, elements),)
        pixel_map, weight_map = maps(self.problem, self.config)
        return argument_fields(
            self.problem,
            (
                *of_borders,
                Field("pixel_map", "tile::TensorMap", "tensor_map", "of x", tensor_map=pixel_map),
                Field("weight_map", "tile::TensorMap", "tensor_map", "of w", tensor_map=weight_map),
            ),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        aligned = {"x": 16, "w": 16, "y": min(STORE_BYTES, self.vector_k * t.y.bytes)}
        if t.residual is None:
            return aligned
        return aligned | {"residual": min(STORE_BYTES, self.vector_k * t.residual.bytes)}

    @property
    def vector_k(self) -> int:
        """Neighbouring channels of a pixel that a thread writes at once: all of them exist or none."""
        return next(vector for vector in (16, 4, 1) if self.problem.k % vector == 0)

    @property
    def overlaps(self) -> bool:
        return self.target.overlaps_launches

    @property
    def wants(self) -> tuple[str, ...]:
        copies = tensor_map.wants("load_im2col_4d", "load_tile_2d")
        return ("warp", "warp_barrier", "tensor_memory", *(("overlap",) if self.overlaps else ()), *copies)

    @property
    def roles(self) -> Tcgen05Roles:
        t = self.problem.quantization.types
        return Tcgen05Roles(
            operation="instruction/tcgen05.j2",
            spelled=self.instruction.mnemonic,
            w_signed=str(t.w.is_signed).lower(),
            x_signed=str(t.x.is_signed).lower(),
            borders=self.borders is not None,
        )

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config = self.config
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": (
                Constant("TILE_M", config.pixels, "output pixels of a tile"),
                Constant("TILE_N", config.channels, "output channels of a tile"),
                Constant("WRITERS", config.writers, "warpgroups of the epilogue"),
                Constant("SLOTS", config.slots, "slabs that are under way or multiplied"),
            ),
            "What follows.": self._constants_that_follow,
        }

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        return (
            Constant("WARP_SIZE", self.target.warp_size),
            Constant("THREADS", self.threads),
            Constant("SLAB", SLAB, "bytes of the reduction that are multiplied together"),
            Constant("SLABS", self.slabs, "of a tile: for each 128 channels, all taps"),
            Constant("COLUMNS", self.columns, "of tensor memory"),
            Constant("CHANNEL_TILES", self.channel_tiles),
            Constant("TILES", self.tiles),
            Constant("BLOCKS", self.blocks, "which have tiles in turn"),
            Constant("VECTOR_K", self.vector_k, "neighbouring outputs that a thread writes at once"),
            *(() if self.borders is None else self.borders.constants),
            Constant("SMEM_BYTES", self.smem_bytes),
            *fold_constants(self.problem),
        )

    def cost(self) -> float:
        return tcgen05_cost.cost(self)


def maps(problem: Conv2d, config: Tcgen05) -> tuple[TensorMap, TensorMap]:
    """Slabs of pixels and of weights. Channels past the last are zeros of x, whatever the weights have there."""
    of_pixels = tensor_map.im2col(problem, SLAB, config.pixels, swizzle=SLAB)
    w_type = problem.quantization.types.w.name
    of_weights = tensor_map.matrix("w", w_type, problem.k, problem.reduction, config.channels, SLAB, swizzle=SLAB)
    return replace(of_pixels, l2_promotion=256), replace(of_weights, l2_promotion=256)


def why_none(problem: Conv2d, target: Target) -> str | None:
    """What stands against every config."""
    q, instruction = problem.quantization, target.tensor_memory
    if instruction is None or not target.tensor_maps:
        return f"{target.name} has no products of bytes in tensor memory; wgmma or mma serves it"
    if (reason := why_not_bytes(problem)) is not None:
        return reason
    if not instruction.serves(q.types.x, q.types.w):
        return f"{q.types.x.name} by {q.types.w.name}: {instruction.name} does not multiply these; mma serves it"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: the channels of a pixel must lie side by side, as in nhwc"
    if problem.groups != 1:
        return f"groups={problem.groups}: a tile of output channels must look at the same inputs; mma serves it"
    if problem.c % 16:
        return f"c={problem.c}: the copy engine moves pixels of whole 16 bytes; pad the channels, or use mma"
    if q.w_zero_point:
        return "w_zero_point: the sums of the inputs' windows are not computed here; mma serves it"
    return None


def plan(problem: Conv2d, config: Tcgen05, target: Target) -> Tcgen05Plan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = target.tensor_memory
    assert instruction is not None
    _check_useful(problem, config)
    columns = ACCUMULATORS * config.pixels // instruction.m * config.channels
    at_most(columns, instruction.columns, f"columns of tensor memory for {ACCUMULATORS} accumulators")
    smem_bytes = _smem_bytes(config)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    channel_tiles = ceil_div(problem.k, config.channels)
    tiles = channel_tiles * ceil_div(problem.pixels, config.pixels)
    # The largest numbers that the page computes: a tile past the last, and an output's index.
    at_most(config.pixels * (ceil_div(tiles, channel_tiles) + target.processors), 2**31 - 1, "pixels of whole tiles")
    made = Tcgen05Plan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        columns=instruction.allocated(columns),
        smem_bytes=smem_bytes,
        channel_tiles=channel_tiles,
        tiles=tiles,
        blocks=min(tiles, target.processors),
    )
    maps(problem, config)
    if made.borders is not None:
        at_most(made.borders.classes * problem.k, 2**24, "offsets of classes of pixels")
    return made


def _smem_bytes(config: Tcgen05) -> int:
    """Slots of both factors, four bytes for where tensor memory begins, and the mbarriers of both rings: a multiple of
    what a swizzle repeats after."""
    slot = (config.pixels + config.channels) * SLAB + 2 * MBARRIER_BYTES
    return ceil_div(config.slots * slot + ACCUMULATORS * 2 * MBARRIER_BYTES + 4, 1024) * 1024


def _check_useful(problem: Conv2d, config: Tcgen05) -> None:
    """Refuses configs that leave a warpgroup of the epilogue, or most of a tile, without anything to do."""
    if config.strips % config.writers:
        raise Infeasible(
            f"writers={config.writers}: warpgroups divide the tile's {config.strips} strips of 32 channels evenly; "
            "writers=1 serves it"
        )
    at_most(config.channels, max(STRIP, 2 * problem.k - 1), f"channels of a tile (the problem has {problem.k})")
    at_most(config.pixels, max(128, 2 * problem.pixels - 1), f"pixels of a tile (the problem has {problem.pixels})")


def structure(config: Tcgen05) -> tuple[int, ...]:
    return (config.writers,)


FAMILY = Family(("conv2d",), Tcgen05, CHOICES, plan, why_none=why_none, structure=structure)
