"""A depthwise layer, computed by dot products over the taps of a filter row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span
from qconv.generator.cost_units import of_activation
from qconv.generator.families.depthwise.bytes import MOST_WORDS, words_in_registers
from qconv.generator.families.fused.layer import InKernel, LayerConfig, LayerPlan, LayerRoles, Work, chunks
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# The most words of pixels that a thread loads before its filters.
MOST_EARLY = 32
COLUMNS = 2  # output columns per thread
# Fitted with the rest of the model (see `fused.plan`): clocks per instruction of a single warp that waits for pixels of
# the image, and clocks until the first pixels arrive.
ALONE_WAITING, FIRST = 5, 1170
# Instructions per thread: to load and transpose four channels of a pixel; for an output, beside its products; for a
# patch; for a channel's filter. WAITS is the factor for stalls.
OF_PIXEL, OF_OUTPUT, OF_PATCH, OF_FILTER, WAITS = 5.4, 3.2, 20, 6, 1.03


@dataclass(frozen=True)
class DepthwiseRoles(LayerRoles):
    patch: str  # a patch's input: image_patch or input_patch
    patches: str  # how threads go through patches: patches, patches_early or patches_two_ways
    own_channels: bool  # a thread keeps its filters, which it loads before a barrier


@dataclass(frozen=True, kw_only=True)
class DepthwiseLayer(LayerPlan):
    kind: ClassVar[str] = "depthwise"
    workspace: ClassVar[str] = "taps"

    run: int  # neighbouring outputs that share the filter words of the first
    two_ways: bool  # patches whose pixels all lie in the image have code of their own
    early_rows: int  # rows of a patch that are loaded before the filters

    @property
    def vector(self) -> int:
        """Channels per thread."""
        return 4 * self.config.n

    @property
    def row_words(self) -> int:
        """Words of four taps per filter row."""
        return ceil_div(self.problem.s, 4)

    @property
    def own_config(self) -> tuple[Constant, ...]:
        return (
            Constant("ROWS", self.config.m, "output rows per thread"),
            Constant("COLUMNS", COLUMNS, "output columns per thread"),
            Constant("VECTOR", self.vector, "channels per thread"),
            Constant("RUN", self.run, "neighbouring outputs that share the words of the first"),
        )

    @property
    def own_constants(self) -> tuple[Constant, ...]:
        early = Constant("EARLY_ROWS", self.early_rows, "rows of a patch that are loaded before the filters")
        return (
            Constant("WORDS", self.row_words, "words of four taps per filter row"),
            Constant("VECTORS", self.problem.k // self.vector, "vectors of channels"),
            *(early,) * (self.early_rows > 0),
            Constant("BLOCK_K", self.block_k, "channels per block"),
        )

    @property
    def wants(self) -> tuple[str, ...]:
        # The first layer reads the image: it prefetches lines, and most of its patches lie inside.
        return ("bytes", *("kept", "near") * self.is_first, *("warp_uniform",) * self.two_ways, *super().wants)

    @property
    def roles(self) -> DepthwiseRoles:
        of_image = "patches_two_ways" if self.two_ways else "patches_early"
        return DepthwiseRoles(
            **vars(super().roles),
            patch="image_patch" if self.is_first else "input_patch",
            patches=of_image if self.is_first else "patches",
            own_channels=not self.is_first,
        )

    def count_work(self, threads: int, weights_in_smem: bool) -> Work:
        problem, config = self.problem, self.config
        sums = 1 + problem.quantization.w_zero_point
        patches = ceil_div(config.rows, config.m) * ceil_div(config.columns, COLUMNS)
        outputs, quads = config.m * COLUMNS * self.vector, self.vector // 4
        vectors = (self.block_k if self.divided else problem.k) // self.vector
        across = min(vectors, threads)
        sets, turns = ceil_div(vectors, across), ceil_div(patches, threads // across)
        pixels = math.prod(input_span(problem, config.m, COLUMNS))
        of_outputs = outputs * (problem.r * self.row_words * sums + OF_OUTPUT + of_activation(problem))
        of_patch = pixels * quads * OF_PIXEL + of_outputs + OF_PATCH
        longest = sets * (turns * of_patch * WAITS + self.vector * OF_FILTER + 60)
        return Work(longest * (threads // self.target.warp_size) / 4, ALONE_WAITING * longest + FIRST)


def depthwise_layer(problem: Conv2d, config: LayerConfig, target: Target, in_kernel: InKernel) -> DepthwiseLayer:
    x = problem.quantization.types.x
    vector, rows, row_words = 4 * config.n, config.m, ceil_div(problem.s, 4)
    if 16 % vector or problem.c % vector:
        raise Infeasible(f"{vector} channels of a thread do not divide {problem.c}, or 16; 4 does for any")
    at_most(rows, max(1, 2 * config.rows - 1), f"rows of a thread (a tile has {config.rows})")
    taken = problem.s + problem.stride[1]
    run = 2 if problem.dilation[1] == 1 and taken <= 4 * row_words else 1
    words = words_in_registers(problem, rows, COLUMNS, vector, run)
    at_most(words, MOST_WORDS, "registers for filters, pixels and sums")
    block_chunks = config.slice_k // 16 or ceil_div(chunks(problem.c, x), config.blocks)
    at_most(
        config.blocks, ceil_div(chunks(problem.c, x), block_chunks), "cluster_blocks (each has 16 channels or more)"
    )
    height, width = input_span(problem, rows, COLUMNS)
    # Code for both kinds of patches excludes early rows: the choice would have to be made before the filters arrive.
    is_first, most_early = config.layer == "first", min(height, MOST_EARLY // (width * config.n))
    two_ways = is_first and (_inside(problem, rows, COLUMNS) >= 0.5 or most_early == 0)
    return DepthwiseLayer(
        problem=problem,
        config=config,
        target=target,
        in_kernel=in_kernel,
        lane_k=vector,
        slab_k=vector,
        block_k=16 * block_chunks,
        registers=words + 16,
        weight_words=problem.r * row_words * problem.k,
        run=run,
        two_ways=two_ways,
        early_rows=most_early * (is_first and not two_ways),
    )


def _inside(problem: Conv2d, rows: int, columns: int) -> float:
    """Return the share of patches that need only pixels of the image."""
    sides = []
    for axis, size in enumerate((rows, columns)):
        span = input_span(problem, rows, columns)[axis]
        firsts = range(0, (problem.oh, problem.ow)[axis], size)
        starts = [first * problem.stride[axis] - problem.pad[axis] for first in firsts]
        sides.append(sum(0 <= at <= (problem.h, problem.w)[axis] - span for at in starts) / len(starts))
    return sides[0] * sides[1]
