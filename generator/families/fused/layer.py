"""A layer, one of several convolutions in a kernel: its config and its plan.

Its page is a namespace of the kernel's source. The first layer reads the image in device memory, the last writes it;
between two layers an intermediate tensor lies in shared memory, a tile of pixels at a time. `Work` is what its cost
model predicts.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

from qconv.arithmetic.epilogue import has_offset, steps
from qconv.arithmetic.step import Argument
from qconv.dtypes import ElementType
from qconv.errors import Infeasible
from qconv.generator.atom import Atom
from qconv.generator.convolution import (
    FOLD_THREADS,
    REPACK_THREADS,
    ConvolutionContext,
    ConvolutionPlan,
    argument_fields,
    fold_bytes,
    fold_constants,
    input_span,
    load_bytes,
    pads_with_zero_point,
    problem_constants,
)
from qconv.generator.plan import Config, Constant, Field, Launch, Roles, at_most, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.chain import MIDS, FusedBlock
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction_tables import WGMMA_M64K32
from qconv.targets.target import Target

# Fitted with the rest of the model (see `fused.plan`): clocks per instruction of a single warp; many warps together
# issue one per clock.
ALONE = 4


class Work(NamedTuple):
    """The predicted clocks of a layer for one tile."""

    issued: float  # to issue the instructions of all warps of a block
    longest: float  # until the slowest warp is done


@lru_cache(maxsize=1024)
def times_asked(pixels: int, width: int, row: int, column_stride: int) -> float:
    """Return the mean number of shared memory accesses for eight neighbouring pixels, which may share banks."""
    banks = [(pixel // width * row + pixel % width * column_stride) % 8 for pixel in range(pixels // 8 * 8)]
    eights = [banks[i : i + 8] for i in range(0, len(banks), 8)]
    return sum(max(map(eight.count, eight)) for eight in eights) / len(eights) if eights else 1.0


RUN_PIXELS = WGMMA_M64K32.m  # pixels of a warpgroup's instruction
MBARRIER_BYTES = 16  # an mbarrier, aligned to 16 bytes


@dataclass(frozen=True)
class LayerConfig(Config):
    """A layer's part of a tile, and the subtile of a warp, a warpgroup or a thread."""

    family: ClassVar[str] = "layer"
    layer: str  # first, second or third
    last: bool  # it writes the image
    rows: int
    columns: int
    blocks: int  # blocks that each compute some of its output channels
    on_wgmma: bool  # whether warpgroups multiply it
    m: int  # atoms of pixels per warp; rows of pixels per thread
    n: int  # atoms of channels per warp or warpgroup; groups of four channels per thread
    ring_warpgroups: int = 0  # warpgroups that share a ring of weight slabs; 0: there is no ring
    slice_k: int = 0  # channels of the slice that a block computes in all layers; 0: all channels

    @property
    def pixels(self) -> int:
        return self.rows * self.columns


class Border(NamedTuple):
    """The pixels of an intermediate tensor that the next layer reads: computed ones and the padding around them."""

    rows: int
    columns: int
    top: int  # rows of padding above the computed ones
    left: int
    varies: bool  # tiles differ in where padding is: it is computed, and overwritten


def of_chunk(element: ElementType) -> int:
    """Return the channels of a chunk: 16 bytes of a pixel in shared memory."""
    return CHUNK // element.bytes


def chunks(channels: int, element: ElementType) -> int:
    """Count the chunks of a pixel."""
    return ceil_div(channels, of_chunk(element))


def plane(pixels: int) -> int:
    """Round up the pixels of a chunk in shared memory, so that neighbouring chunks lie on different banks."""
    return (pixels + 6) // 8 * 8 + 1


def is_depthwise(problem: Conv2d) -> bool:
    """True if threads compute it tap by tap; matrix instructions compute every other convolution."""
    return problem.c_group == 1 and problem.k_group == 1 and problem.groups > 1 and problem.c % 4 == 0


def atom_of(problem: Conv2d, target: Target) -> Atom | None:
    """Return the smallest matrix instruction for these types, because tiles are small."""
    t = problem.quantization.types
    atoms = [Atom(i) for i in target.instructions if i.serves(t.x, t.w)]
    return min(atoms, key=lambda atom: atom.pixels * atom.channels, default=None)


def fits_wgmma(problem: Conv2d, target: Target) -> bool:
    """True if warpgroups can multiply it: it has one group, and more than half as many output channels as an atom."""
    q, instruction = problem.quantization, target.warpgroup
    if instruction is None or not instruction.serves(q.types.x, q.types.w):
        return False
    return problem.groups == 1 and not q.w_zero_point and problem.k > 4


def row_pixels(problem: Conv2d, width: int) -> int:
    """Return the pixels of a tile's input row in shared memory, for a row of `width` outputs. With a stride of 2 the
    even columns precede the odd ones, so that pixels which neighbouring outputs read are neighbours: warpgroups need
    that, and they lie on different banks. A gap makes all phases equally long."""
    across = problem.stride[1]
    return ceil_div(input_span(problem, 1, width)[1], across) * across


def _is_useful(channels: int, side: int) -> bool:
    """True if this size pads the channels less than the powers of two below and above it."""
    powers = (1 << side.bit_length() >> 1, 1 << side.bit_length())
    return ceil_div(channels, side) * side < min(ceil_div(channels, power) * power for power in powers)


def is_subtile(problem: Conv2d, on_wgmma: bool, m: int, n: int, target: Target) -> bool:
    """True if a subtile is useful: neither so small that a warp mostly waits, nor too large for its registers."""
    if is_depthwise(problem):
        return n <= 2
    atom = atom_of(problem, target)
    if atom is None or (n & (n - 1) and not _is_useful(problem.k, 8 * n if on_wgmma else n * atom.channels)):
        return False
    if on_wgmma:
        return fits_wgmma(problem, target) and (n >= 4 or 8 * n >= problem.k > 4 * n)
    return (m * n >= 4 or n * atom.channels >= problem.k) and m * n <= 16


def fetches(config: LayerConfig, target: Target) -> bool:
    """True if one thread fetches the weights by bulk copies. Only the last layer's: the first layer's are needed at
    once, and copies by all threads arrive sooner."""
    return config.last and target.bulk_copies


def ring(config: LayerConfig, runs: int, slabs: int, block_slabs: int) -> tuple[int, int]:
    """Return how many warpgroups multiply a slab together, and the number of buffers. Slabs are multiplied in some
    buffers while others are being filled. The same warpgroups take all slabs of a buffer, so that none misses a
    phase."""
    if not config.ring_warpgroups:
        return 0, 0
    of_slab = max(n for n in (1, 2, 4) if n <= min(runs, config.ring_warpgroups))
    at_once = config.ring_warpgroups // of_slab
    buffers = max(
        (n for n in (2, 3, 4) if n % at_once == 0 and n < block_slabs and n <= max(3, 2 * at_once)), default=0
    )
    if not buffers or slabs % block_slabs:
        raise Infeasible(
            f"weights_in_smem=0: {at_once} slabs of the {config.layer} convolution are multiplied at a time; for a "
            f"ring there must be more, as many for each of {config.blocks} blocks (there are {slabs}); "
            "weights_in_smem=1, or on_wgmma=0, serves it"
        )
    return of_slab, buffers


def ring_bytes(buffers: int) -> int:
    """Return the bytes of a ring's mbarriers and of the counters of the warps that have used each buffer."""
    return 16 * ceil_div(12 * buffers, 16)


# Sums that a lane can hold in registers.
MOST_SUMS = 128
LAYERS = FusedBlock.LAYERS


@dataclass(frozen=True)
class InKernel:
    """The kernel's demands on a layer."""

    threads: int  # per team
    border: Border | None = None  # of its outputs, if another layer reads them
    weights_in_smem: bool = False
    by_slices: bool = False  # a block computes the same slice of channels in all layers


@dataclass(frozen=True)
class LayerRoles(Roles):
    layer: str
    kind: str
    before: str  # the layer whose outputs it reads; empty for the first
    behind: str  # the layer that reads its outputs; empty for the last
    takes: str  # the tensor that it reads
    gives: str  # the tensor that it writes; empty for the last
    source: str  # where its input is: image, loaded or intermediate
    load: str  # how its input is loaded to shared memory: async, registers or gathered
    sink: str  # where its outputs go: image, tile, image_patch or tile_patch
    writes: str  # how a tile of outputs is written: write, or write_or_pad where some pixels are padding
    memory: str  # where its weights are: device or smem
    arrival: str  # how its weights come to shared memory: copied, fetched or ring
    offset_in_sums: bool
    fetches: bool
    weight_ring: bool
    does: tuple[str, ...]  # the functions that prepare its weights
    repack_threads: int
    fills_input: bool  # padding of the input is not zero
    has_border: bool  # padding around its outputs is written once
    channel_arguments: tuple[Argument, ...]  # of the epilogue, one value per channel
    load_channel: str  # template file of the function that loads one channel


@dataclass(frozen=True, kw_only=True)
class LayerPlan(ConvolutionPlan):
    page: ClassVar[str] = "families/fused/layer.j2"
    kind: ClassVar[str]
    workspace: ClassVar[str] = "fragments"  # the source's name for the repacked weights

    problem: Conv2d
    config: LayerConfig
    in_kernel: InKernel
    lane_k: int  # neighbouring output channels per lane or thread
    slab_k: int  # output channels per warp, warpgroup or thread
    block_k: int  # output channels per block
    registers: int  # estimate of the registers per thread
    weight_words: int  # words of the repacked weights
    spills: bool = True  # a third of its registers may be missing where threads have few
    weight_smem_bytes: int = 0  # weights in shared memory, with their mbarriers and channel parameters
    # Asynchronous copies of all threads that load the weights: one number for each loop.
    weight_copies: tuple[int, ...] = ()
    past_bytes: int = 0  # bytes that it reads past the end of its input in shared memory

    @property
    @abstractmethod
    def own_config(self) -> tuple[Constant, ...]:
        """Constants of the config that only a layer of this kind has."""

    @property
    @abstractmethod
    def own_constants(self) -> tuple[Constant, ...]:
        """Derived constants that only a layer of this kind has."""

    @abstractmethod
    def count_work(self, threads: int, weights_in_smem: bool) -> Work:
        """Predict the clocks that a team of `threads` takes for a tile. With the weights in shared memory they are at
        most those without."""

    @cached_property
    def work(self) -> Work:
        return self.count_work(self.in_kernel.threads, self.in_kernel.weights_in_smem)

    @property
    def _offset_in_sums(self) -> bool:
        """True if the sums begin with the offsets."""
        return self.kind != "matrix" and has_offset(self.problem.quantization)

    @property
    def context(self) -> ConvolutionContext:
        """The epilogue adds the offset, unless the sums have it."""
        own = super().context
        left = tuple(step for step in own.steps if not (self._offset_in_sums and step.name == "offset"))
        return replace(own, steps=left)

    @property
    def workspace_ctype(self) -> str:
        return "int"

    @property
    def is_first(self) -> bool:
        return self.config.layer == LAYERS[0]

    @property
    def loads_image(self) -> bool:
        """True if its input is loaded from the image to shared memory. Depthwise layers read the image themselves."""
        return self.is_first and self.kind != "depthwise"

    @property
    def source_span(self) -> tuple[int, int]:
        """Rows and columns of its input that a tile needs."""
        return input_span(self.problem, self.config.rows, self.config.columns)

    @property
    def by_turns(self) -> bool:
        """True if the even columns of its input precede the odd ones in shared memory."""
        return self.loads_image and self.problem.stride != (1, 1)

    @property
    def source_row(self) -> int:
        """Pixels from a row of its input in shared memory to the next row."""
        return row_pixels(self.problem, self.config.columns) if self.by_turns else self.source_span[1]

    @property
    def load_width(self) -> int:
        """Bytes of the image per load; 1: bytes are gathered."""
        return load_bytes(self.problem.c, self.problem.quantization.types.x)

    @property
    def load_bytes(self) -> int:
        """Bytes per write to shared memory."""
        return max(4, self.load_width)

    @property
    def asynchronous(self) -> bool:
        return self.target.async_copies and self.load_width >= 4

    @property
    def fills(self) -> bool:
        border = self.in_kernel.border
        return border is not None and border.varies

    @property
    def bordered(self) -> bool:
        border = self.in_kernel.border
        return border is not None and border[:2] != (self.config.rows, self.config.columns)

    @property
    def gathers(self) -> bool:
        """True if the bytes of its input are loaded one by one."""
        return self.load_width == 1

    @property
    def channel_arguments(self) -> tuple[Argument, ...]:
        """The parameters of the epilogue that have a value for each channel."""
        arguments = (argument for step in steps(self.problem.quantization) for argument in step.arguments)
        return tuple(argument for argument in arguments if argument.per_channel)

    @property
    def vector_k(self) -> int:
        """Neighbouring channels per write to the image: a power of two."""
        of_both = math.gcd(self.lane_k, self.problem.k)
        return of_both & -of_both

    @property
    def divided(self) -> bool:
        return self.config.blocks > 1

    @property
    def fetches(self) -> bool:
        return fetches(self.config, self.target)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches that prepare a set of weights."""
        layer, blocks = self.config.layer, ceil_div(self.weight_words, REPACK_THREADS)
        repack = Launch(f"{layer}_repack_weights", (blocks, 1, 1), REPACK_THREADS, 0, "prepare")
        if not self.problem.quantization.x_zero_point:
            return (repack,)
        fold = Launch(f"{layer}_fold", (self.problem.k, 1, 1), FOLD_THREADS, fold_bytes(self.problem), "prepare")
        return fold, repack

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        config, says = self.config, "the weights, repacked"
        own = Field(self.workspace, f"{self.workspace_ctype}*", "workspace", says, None, self.weight_words)
        elsewhere = ("x",) * (not self.is_first) + ("y",) * (not config.last)  # in shared memory
        return tuple(
            replace(field, layer=config.layer, role=_role(field, config.layer))
            for field in argument_fields(self.problem, (own,))
            if field.name not in elsewhere
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        t, alignment = self.problem.quantization.types, {"w": 1}
        if self.is_first:
            alignment["x"] = self.load_width if self.loads_image else self.lane_k * t.x.bytes
        if self.config.last:
            alignment["y"] = min(16, self.vector_k * t.y.bytes)
            if t.residual is not None:
                alignment["residual"] = min(16, self.vector_k * t.residual.bytes)
        return alignment

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, (source_rows, source_columns) = self.config, self.source_span
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": self.own_config,
            "What follows.": (
                *self.own_constants,
                Constant("SOURCE_ROWS", source_rows, "input rows that a tile needs"),
                Constant("SOURCE_COLUMNS", source_columns),
                Constant(
                    "SOURCE_ROW", self.source_row, "pixels from a row in shared memory to the next", may_be_unused=True
                ),
                Constant(
                    "INTERLEAVED", self.by_turns, "even columns precede odd ones in shared memory", may_be_unused=True
                ),
                *self._plane_constants,
                Constant("GRID_ROWS", config.rows, "output rows of a tile"),
                Constant("GRID_COLUMNS", config.columns),
                Constant("GRID_PIXELS", config.pixels),
                *self._border_constants,
                *((Constant("WIDTH", self.load_bytes, "bytes of the input per load"),) * self.loads_image),
                Constant("DIVIDED", self.divided, "each of several blocks computes some output channels"),
                Constant(
                    "HAS_K_REMAINDER", self.problem.k % self.slab_k != 0, "the last slab has channels that do not exist"
                ),
                *(
                    (Constant("VECTOR_K", self.vector_k, "channels per write"),)
                    * (config.last and self.kind != "depthwise")
                ),
                *fold_constants(self.problem),
            ),
        }

    @property
    def _plane_constants(self) -> tuple[Constant, ...]:
        if self.kind == "depthwise":
            return ()
        return (Constant("SOURCE_PLANE", plane(self.source_span[0] * self.source_row)),)

    @property
    def _border_constants(self) -> tuple[Constant, ...]:
        border = self.in_kernel.border
        if border is None:
            return ()
        return (
            Constant("BORDERED_ROWS", border.rows, "those rows and the padding around them"),
            Constant("BORDERED_COLUMNS", border.columns),
            Constant("BORDER_TOP", border.top, "rows of padding above"),
            Constant("BORDER_LEFT", border.left),
            Constant("PADS_OUTSIDE", self.fills, "pixels outside the image are written as padding"),
        )

    @property
    def roles(self) -> LayerRoles:
        config, q, at = self.config, self.problem.quantization, LAYERS.index(self.config.layer)
        return LayerRoles(
            layer=config.layer,
            kind=self.kind,
            before="" if self.is_first else LAYERS[at - 1],
            behind="" if config.last else LAYERS[at + 1],
            takes=MIDS[at - 1] if at else "input",
            gives="" if config.last else MIDS[at],
            source="intermediate" if at else "loaded" if self.loads_image else "image",
            load="async" if self.asynchronous else "gathered" if self.gathers else "registers",
            sink=("image" if config.last else "tile") + "_patch" * (self.kind == "depthwise"),
            writes="write_or_pad" if self.fills else "write",
            memory="smem" if self.in_kernel.weights_in_smem else "device",
            arrival="ring" if config.ring_warpgroups else "fetched" if self.fetches else "copied",
            offset_in_sums=self._offset_in_sums,
            fetches=self.fetches,
            weight_ring=config.ring_warpgroups > 0,
            does=("repack_weights", "fold") if q.x_zero_point else ("repack_weights",),
            repack_threads=REPACK_THREADS,
            fills_input=pads_with_zero_point(self.problem),
            has_border=self.bordered,
            channel_arguments=self.channel_arguments,
            load_channel="nothing.j2",
        )


def _role(field: Field, layer: str) -> str:
    return f"w{LAYERS.index(layer) + 1}" if field.role == "w" else field.role


def check_subtile(problem: Conv2d, config: LayerConfig, slab_k: int, pixels: int, sums: int) -> None:
    """Raise Infeasible where a subtile is larger than the layer's part of a tile, or than registers can hold."""
    if config.n > 1:
        at_most(slab_k, 2 * problem.k - 1, f"output channels at a time (the problem has {problem.k})")
    if config.m > 1:
        at_most(pixels, 2 * config.pixels - 1, f"pixels at a time (a tile has {config.pixels})")
    at_most(sums, MOST_SUMS, f"sums of a lane of the {config.layer} convolution")


def check_blocks(config: LayerConfig, slabs: int, block_slabs: int) -> None:
    """Raise Infeasible where some blocks would have no slab."""
    at_most(
        config.blocks,
        ceil_div(slabs, block_slabs),
        f"cluster_blocks (the {config.layer} convolution has {slabs} slabs)",
    )
