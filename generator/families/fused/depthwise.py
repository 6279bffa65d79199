"""A depthwise layer: of bytes, dot products over the taps of a filter row; of floats, one fma per tap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.dtypes import ElementType
from qconv.errors import Infeasible
from qconv.generator.convolution import input_span
from qconv.generator.cost_units import of_activation
from qconv.generator.families.fused.layer import InKernel, LayerConfig, LayerPlan, LayerRoles, Work, of_chunk
from qconv.generator.families.fused.taps import COLUMNS, Taps, taps_of
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# The most words of pixels that a thread loads before its filters.
MOST_EARLY = 32
FIRST = 1170  # clocks until the first pixels arrive, fitted with the rest of the model (see `fused.cost`)
OF_OUTPUT, OF_PATCH = 3.2, 20  # instructions per thread: for an output, beside its products, and for a patch


@dataclass(frozen=True)
class DepthwiseRoles(LayerRoles):
    patch: str  # a patch's input: image_patch or input_patch
    patches: str  # how threads go through patches: patches, patches_early or patches_two_ways
    own_channels: bool  # a thread keeps its filters, which it loads before a barrier
    elements: str  # how it multiplies: bytes or floats
    in_source: str  # the place of a channel in a chunk that it reads: bytes or elements
    in_sink: str  # in a chunk that it writes


@dataclass(frozen=True, kw_only=True)
class DepthwiseLayer(LayerPlan):
    kind: ClassVar[str] = "depthwise"
    workspace: ClassVar[str] = "taps"

    taps: Taps
    two_ways: bool  # patches whose pixels all lie in the image have code of their own
    early_rows: int  # rows of a patch that are loaded before the filters

    @property
    def vector(self) -> int:
        """Channels per thread."""
        return 4 * self.config.n

    @property
    def workspace_ctype(self) -> str:
        return self.taps.ctype

    @property
    def dot(self) -> str:
        return super().dot if self.taps.dots else "nothing.j2"

    @property
    def own_config(self) -> tuple[Constant, ...]:
        return (
            Constant("ROWS", self.config.m, "output rows per thread"),
            Constant("COLUMNS", COLUMNS, "output columns per thread"),
            Constant("VECTOR", self.vector, "channels per thread"),
            *self.taps.run_constants,
        )

    @property
    def own_constants(self) -> tuple[Constant, ...]:
        before = Constant("LOADS_BEFORE_BARRIER", not self.is_first, "a thread keeps its filters over a barrier")
        early = Constant("EARLY_ROWS", self.early_rows, "rows of a patch that are loaded before the filters")
        return (
            Constant("WORDS", self.taps.row_words, self.taps.says),
            Constant("VECTORS", self.problem.k // self.vector, "vectors of channels"),
            *(early,) * (self.early_rows > 0),
            *(before,) * (not self.taps.dots),
            Constant("BLOCK_K", self.block_k, "channels per block"),
        )

    @property
    def roles(self) -> DepthwiseRoles:
        t, of_image = self.problem.quantization.types, "patches_two_ways" if self.two_ways else "patches_early"
        return DepthwiseRoles(
            **vars(super().roles),
            patch="image_patch" if self.is_first else "input_patch",
            patches=of_image if self.is_first else "patches",
            own_channels=not self.is_first,
            elements=self.taps.elements,
            in_source=_in_chunk(t.x),
            in_sink=_in_chunk(t.y),
        )

    def count_work(self, threads: int, weights_in_smem: bool) -> Work:
        problem, config, taps = self.problem, self.config, self.taps
        patches = ceil_div(config.rows, config.m) * ceil_div(config.columns, COLUMNS)
        outputs = config.m * COLUMNS * self.vector
        vectors = (self.block_k if self.divided else problem.k) // self.vector
        across = min(vectors, threads)
        sets, turns = ceil_div(vectors, across), ceil_div(patches, threads // across)
        height, width = input_span(problem, config.m, COLUMNS)
        of_outputs = outputs * (taps.products + OF_OUTPUT + of_activation(problem))
        of_patch = height * width * taps.of_pixel + of_outputs + OF_PATCH
        issued = sets * (turns * of_patch * taps.waits + self.vector * taps.of_filter + 60)
        waiting = sets * turns * height * taps.latency(self.is_first)
        return Work(issued * (threads // self.target.warp_size) / 4, taps.alone * issued + waiting + FIRST)


def depthwise_layer(problem: Conv2d, config: LayerConfig, target: Target, in_kernel: InKernel) -> DepthwiseLayer:
    vector, rows = 4 * config.n, config.m
    taps = taps_of(problem, vector, rows)
    _check_vector(problem, config, vector)
    at_most(rows, max(1, 2 * config.rows - 1), f"rows of a thread (a tile has {config.rows})")
    block_k = _block_k(problem, config)
    height, width = input_span(problem, rows, COLUMNS)
    # Code for both kinds of patches excludes early rows: the choice would have to be made before the filters arrive.
    is_first, most_early = config.layer == "first", min(height, MOST_EARLY // (width * taps.pixel_words))
    two_ways = is_first and (_inside(problem, rows, COLUMNS) >= 0.5 or most_early == 0)
    return DepthwiseLayer(
        problem=problem,
        config=config,
        target=target,
        in_kernel=in_kernel,
        lane_k=vector,
        slab_k=vector,
        block_k=block_k,
        registers=taps.registers,
        spills=taps.spills,
        weight_words=problem.r * taps.row_words * problem.k,
        taps=taps,
        two_ways=two_ways,
        early_rows=most_early * (is_first and not two_ways),
    )


def _check_vector(problem: Conv2d, config: LayerConfig, vector: int) -> None:
    """Raise Infeasible where a thread's channels are in several chunks, or where a chunk of floats would have channels
    that nobody writes: a zero times the NaN that they may be is none."""
    t = problem.quantization.types
    chunk = min(of_chunk(t.x), CHUNK if config.last else of_chunk(t.y))
    if chunk % vector or problem.c % vector:
        raise Infeasible(f"{vector} channels of a thread do not divide {problem.c}, or {chunk}; 4 does for any")
    if not config.last and not t.y.is_integer and problem.k % of_chunk(t.y):
        raise Infeasible(f"k={problem.k}: floats fill chunks of {of_chunk(t.y)} channels; pad them, or run it unfused")


def _block_k(problem: Conv2d, config: LayerConfig) -> int:
    """Return the channels of a block: whole chunks of what it reads, and of what it writes to shared memory."""
    if config.slice_k:
        return config.slice_k
    t = problem.quantization.types
    whole = max(of_chunk(t.x), 1 if config.last else of_chunk(t.y))
    parts = ceil_div(problem.c, whole)
    of_block = ceil_div(parts, config.blocks)
    at_most(config.blocks, ceil_div(parts, of_block), f"cluster_blocks (each has {whole} channels or more)")
    return whole * of_block


def _in_chunk(element: ElementType) -> str:
    return "bytes" if element.bytes == 1 else "elements"


def _inside(problem: Conv2d, rows: int, columns: int) -> float:
    """Return the share of patches that need only pixels of the image."""
    sides = []
    for axis, size in enumerate((rows, columns)):
        span = input_span(problem, rows, columns)[axis]
        firsts = range(0, (problem.oh, problem.ow)[axis], size)
        starts = [first * problem.stride[axis] - problem.pad[axis] for first in firsts]
        sides.append(sum(0 <= at <= (problem.h, problem.w)[axis] - span for at in starts) / len(starts))
    return sides[0] * sides[1]
