"""A layer: one of several convolutions in a kernel.

Its page is a namespace of the kernel's source. The first layer reads the image in device memory, the last writes it;
between two layers an intermediate tensor lies in shared memory, a tile of pixels at a time.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.epilogue import has_offset, steps
from qconv.arithmetic.step import Argument
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
from qconv.generator.families.fused.layer_config import Border, LayerConfig, Work, fetches, plane, row_pixels
from qconv.generator.plan import Constant, Field, Launch, Roles, at_most, ceil_div
from qconv.problem.chain import MIDS, FusedBlock
from qconv.problem.convolution import Conv2d

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
    def count_work(self) -> Work:
        """Predict the clocks that the layer takes for a tile."""

    @cached_property
    def work(self) -> Work:
        return self.count_work()

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
        own = Field(self.workspace, "int*", "workspace", says, None, self.weight_words)
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
            alignment["x"] = self.load_width if self.loads_image else self.lane_k
        if self.config.last:
            alignment["y"] = min(16, self.vector_k * t.y.bytes)
            if t.residual is not None:
                alignment["residual"] = min(16, self.vector_k * t.residual.bytes)
        return alignment

    @property
    def wants(self) -> tuple[str, ...]:
        loads_vectors = bool(self.channel_arguments) or self.problem.quantization.residual != "none"
        return ("warp", *("vectors",) * loads_vectors)

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
