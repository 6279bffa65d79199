"""One of several convolutions in one kernel, a layer: a plan whose page is a namespace of that kernel's source. The
first layer finds its inputs in the image, the last leaves its outputs there; the intermediate between two is a
tile of pixels in shared memory."""

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

# A lane's registers hold no more sums than this.
MOST_SUMS = 128
LAYERS = FusedBlock.LAYERS


@dataclass(frozen=True)
class InKernel:
    """What the kernel around a layer asks of it."""

    threads: int  # of a team
    border: Border | None = None  # around its outputs, where the next layer takes them
    weights_in_smem: bool = False  # its weights lie in shared memory
    by_slices: bool = False  # a block has the same channels in all layers, and no others


@dataclass(frozen=True)
class LayerRoles(Roles):
    layer: str
    kind: str
    before: str  # the layer that gives its inputs; empty for the first
    behind: str  # the layer that takes its outputs; empty for the last
    takes: str  # the tensor that it reads
    gives: str  # the tensor that it writes; empty for the last
    source: str  # where its input is: image, loaded or intermediate
    load: str  # how its input is loaded to shared memory: async, registers or gathered
    sink: str  # where its outputs go: image, tile, image_patch or tile_patch
    memory: str  # where its weights are: device or smem
    arrival: str  # how its weights come to shared memory: copied, fetched or ring
    offset_in_sums: bool
    fetches: bool
    weight_ring: bool
    does: tuple[str, ...]  # with a set of weights
    repack_threads: int
    fills_input: bool  # padding of the input is not zero
    has_border: bool  # padding around its outputs is written once
    channel_arguments: tuple[Argument, ...]  # of the epilogue, one value a channel
    loads_single_channels: bool


@dataclass(frozen=True, kw_only=True)
class LayerPlan(ConvolutionPlan):
    page: ClassVar[str] = "families/fused/layer.j2"
    kind: ClassVar[str]
    workspace: ClassVar[str] = "fragments"  # what the source calls the weights as the lanes read them

    problem: Conv2d
    config: LayerConfig
    in_kernel: InKernel
    lane_k: int  # neighbouring output channels that a lane or a thread ends up with
    slab_k: int  # output channels of a warp, a warpgroup or a thread
    block_k: int  # output channels of a block
    registers: int  # that a thread needs, about
    weight_words: int  # of the weights as the lanes read them
    weight_smem_bytes: int = 0  # of the weights in shared memory, with what belongs to them
    # Copies that bring them there, of all threads: one number for each loop.
    weight_copies: tuple[int, ...] = ()
    past_bytes: int = 0  # how far it reads past the end of its input in shared memory

    @property
    @abstractmethod
    def own_config(self) -> tuple[Constant, ...]:
        """The constants that the config of a layer of this kind gives."""

    @property
    @abstractmethod
    def own_constants(self) -> tuple[Constant, ...]:
        """The constants that follow for a layer of this kind alone."""

    @abstractmethod
    def count_work(self) -> Work:
        """The cost model of a layer of this kind."""

    @cached_property
    def work(self) -> Work:
        return self.count_work()

    @property
    def is_first(self) -> bool:
        return self.config.layer == LAYERS[0]

    @property
    def loads_image(self) -> bool:
        """Whether the kernel brings its input from the image to shared memory. Depthwise layers read the image."""
        return self.is_first and self.kind != "depthwise"

    @property
    def source_span(self) -> tuple[int, int]:
        """Rows and columns of its input that a tile looks at."""
        return input_span(self.problem, self.config.rows, self.config.columns)

    @property
    def by_turns(self) -> bool:
        """Whether the even columns of its input lie before the odd ones."""
        return self.loads_image and self.problem.stride != (1, 1)

    @property
    def source_row(self) -> int:
        """Places of a row of its input in shared memory."""
        return row_pixels(self.problem, self.config.columns) if self.by_turns else self.source_span[1]

    @property
    def load_width(self) -> int:
        """Bytes of the image that one load brings; 1: they are gathered."""
        return load_bytes(self.problem.c, self.problem.quantization.types.x)

    @property
    def load_bytes(self) -> int:
        """Bytes that are written to shared memory at a time."""
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
        """Whether the bytes of its input are loaded one by one."""
        return self.load_width == 1

    @property
    def channel_arguments(self) -> tuple[Argument, ...]:
        """What the epilogue reads of each channel."""
        arguments = (argument for step in steps(self.problem.quantization) for argument in step.arguments)
        return tuple(argument for argument in arguments if argument.per_channel)

    @property
    def vector_k(self) -> int:
        """Neighbouring channels that are written at once: a power of two."""
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
        """What is done with a set of weights."""
        layer, blocks = self.config.layer, ceil_div(self.weight_words, REPACK_THREADS)
        repack = Launch(f"{layer}_repack_weights", (blocks, 1, 1), REPACK_THREADS, 0, "prepare")
        if not self.problem.quantization.x_zero_point:
            return (repack,)
        fold = Launch(f"{layer}_fold", (self.problem.k, 1, 1), FOLD_THREADS, fold_bytes(self.problem), "prepare")
        return fold, repack

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        config, says = self.config, "the weights as the lanes read them"
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
                Constant("SOURCE_ROWS", source_rows, "of input pixels that a tile looks at"),
                Constant("SOURCE_COLUMNS", source_columns),
                Constant("SOURCE_ROW", self.source_row, "pixels of a row and its gaps"),
                Constant("INTERLEAVED", self.by_turns, "the columns of a stride's first phase come first"),
                *self._plane_constants,
                Constant("GRID_ROWS", config.rows, "of output pixels of a tile"),
                Constant("GRID_COLUMNS", config.columns),
                Constant("GRID_PIXELS", config.pixels),
                *self._border_constants,
                *((Constant("WIDTH", self.load_bytes, "bytes of the input at a time"),) * self.loads_image),
                Constant("DIVIDED", self.divided, "several blocks each compute some of the output channels"),
                Constant(
                    "HAS_K_REMAINDER", self.problem.k % self.slab_k != 0, "some channels that are computed do not exist"
                ),
                *(
                    (Constant("VECTOR_K", self.vector_k, "channels that are written at once"),)
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
            Constant("BORDERED_ROWS", border.rows, "of them and of the padding around them"),
            Constant("BORDERED_COLUMNS", border.columns),
            Constant("BORDER_TOP", border.top, "rows of padding above them"),
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
            memory="smem" if self.in_kernel.weights_in_smem else "device",
            arrival="ring" if config.ring_warpgroups else "fetched" if self.fetches else "copied",
            offset_in_sums=self.kind != "matrix" and has_offset(q),
            fetches=self.fetches,
            weight_ring=config.ring_warpgroups > 0,
            does=("repack_weights", "fold") if q.x_zero_point else ("repack_weights",),
            repack_threads=REPACK_THREADS,
            fills_input=pads_with_zero_point(self.problem),
            has_border=self.bordered,
            channel_arguments=self.channel_arguments,
            loads_single_channels=False,
        )


def _role(field: Field, layer: str) -> str:
    return f"w{LAYERS.index(layer) + 1}" if field.role == "w" else field.role


def check_subtile(problem: Conv2d, config: LayerConfig, slab_k: int, pixels: int, sums: int) -> None:
    """Raises Infeasible where a warp or a warpgroup has more at a time than there is, or than its registers hold."""
    if config.n > 1:
        at_most(slab_k, 2 * problem.k - 1, f"output channels at a time (the problem has {problem.k})")
    if config.m > 1:
        at_most(pixels, 2 * config.pixels - 1, f"pixels at a time (a tile has {config.pixels})")
    at_most(sums, MOST_SUMS, f"sums of a lane of the {config.layer} convolution")


def check_blocks(config: LayerConfig, slabs: int, block_slabs: int) -> None:
    """Raises Infeasible where some blocks would have no slab."""
    at_most(
        config.blocks,
        ceil_div(slabs, block_slabs),
        f"cluster_blocks (the {config.layer} convolution has {slabs} slabs)",
    )
