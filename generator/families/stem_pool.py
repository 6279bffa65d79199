"""The `stem_pool` family: the layers of `stem_wgmma` with the max pool behind them.

Scaling and rounding keep the order of sums. So a consumer finds the largest sum of each window of the pool first, and
makes a quarter of the outputs. It goes along a row of windows, and keeps the sums that the first window of the next
tile begins with.

The time of a kernel is fitted to 11 kernels of ResNet's first layer and its pool, timed on an H200. The root mean
square error is 4 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import ConvolutionContext, context
from qconv.generator.cost_units import at_once, moved_bytes, of_activation
from qconv.generator.families import Family, stem_wgmma
from qconv.generator.families.halo.plan import is_staged
from qconv.generator.families.halo.windows import COLUMNS
from qconv.generator.families.stem_wgmma import (
    CELL,
    CHANNELS,
    OF_OFFSET,
    START,
    STREAM,
    WRITE,
    Cells,
    StemWgmmaPlan,
    StemWgmmaRoles,
    of_cells,
)
from qconv.generator.persistent import warpgroup_of
from qconv.generator.plan import Config, Constant, Launch, at_most, ceil_div, check_choices
from qconv.generator.tensor_map import CHUNK
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.targets.target import Target

# Clocks per row of four windows of 64 channels: to find the largest sums, and to make outputs of them. Products do not
# overlap with these: both use the same register ports.
POOLED, OUTPUTS = 4.0, 12.0
# Clocks of a tile before its first product.
BEGUN = 100


def cost(plan: StemPoolPlan) -> float:
    strips = ceil_div(plan.strips * plan.channel_tiles, plan.blocks * plan.consumers) * plan.consumers
    issued = strips * plan.across * _tile(plan)
    return at_once(issued, moved_bytes(plan.problem) / plan.target.processors / STREAM, 6) + START


def _tile(plan: StemPoolPlan) -> float:
    """Clocks per tile. Consumers take no turns, and share the tensor cores."""
    config, problem = plan.config, plan.problem
    products = plan.steps * max(4 * plan.rows, 20) + BEGUN
    of_each = 1 + of_activation(problem) / 8 + OF_OFFSET * problem.quantization.x_zero_point
    made = config.windows * (POOLED + OUTPUTS * of_each)
    alone = (products + WRITE + made) / plan.consumers
    return at_once(max(alone, of_cells(plan.pairs, config.team)), products + made, 3)


# Windows in a row of a tile: a lane has two neighbouring pixels, and one window for them.
ACROSS = COLUMNS // 2
# Bytes of the two sums that a lane hands to the lane of the next window; copies for this tile and for the next one.
EDGE_BYTES, EDGE_HALVES = 8, 2
# Warpgroups that multiply. Three would share slots of the ring, and could run ahead of each other there.
CONSUMERS = 2
# Activations that keep the order of their inputs.
IN_ORDER = ("none", "relu", "clamp")


@dataclass(frozen=True)
class StemPool(Config):
    family: ClassVar[str] = "stem_pool"
    windows: int  # rows of windows in a tile, which is four windows wide
    team: int  # warps that make the cells of a tile


CHOICES: dict[str, tuple[int, ...]] = {
    "windows": (2, 4, 6, 8, 10, 12, 14),
    "team": (1, 4),
}


@dataclass(frozen=True)
class PaddedOutputs:
    """The convolution's outputs with the pool's padding, as the outputs of a convolution with larger pads."""

    convolution: Conv2d
    before: tuple[int, int]  # rows and columns of padding above and left of the convolution's own outputs
    first: int  # column of the pool's output that the first tile begins with
    tiles: int  # of a strip, which goes across an image

    @classmethod
    def of(cls, problem: PooledConv2d) -> PaddedOutputs:
        """Return them, or raise Infeasible where the pads exceed the limits of problems.

        A window of three columns begins with the right column of the pair in front of its own. Where that is no
        padding, a whole tile goes in front of the first one, because TMA stores nothing that begins before the array.
        """
        (r, s), pool = problem.window, problem.rest
        first = -ACROSS if s == 3 and problem.window_pad[1] == 0 else 0
        above, ahead = problem.window_pad[0], (problem.window_pad[1] - (s == 3)) - 2 * first
        rows, columns = 2 * (pool.oh - 1) + r, 2 * (pool.ow - first)
        top, left = problem.pad[0] + CELL * above, problem.pad[1] + CELL * ahead
        bottom = CELL * (rows - 1) + problem.r - problem.h - top
        right = CELL * (columns - 1) + problem.s - problem.w - left
        pads = (top, left, max(bottom, 0), max(right, 0))
        try:
            convolution = replace(problem.first, pad=pads)
        except ValueError as error:
            raise Infeasible(f"with the pool's padding, as outputs of the convolution, {error}") from None
        return cls(convolution, (above, ahead), first, ceil_div(pool.ow - first, ACROSS))


@dataclass(frozen=True, kw_only=True)
class StemPoolRoles(StemWgmmaRoles):
    overlapping: bool  # whether neighbouring windows have a column in common


@dataclass(frozen=True)
class StemPoolPlan(StemWgmmaPlan):
    page: ClassVar[str] = "families/stem_wgmma/pool.j2"

    problem: PooledConv2d
    config: StemPool  # type: ignore[assignment]  # it has all that a plan of stem_wgmma reads
    padded: PaddedOutputs

    @property
    def consumers(self) -> int:
        return CONSUMERS

    @property
    def rows(self) -> int:
        return rows(self.problem, self.config)

    @property
    def reshaped(self) -> Conv2d:
        return self.padded.convolution

    @property
    def stored(self) -> tuple[int, int]:
        return ACROSS, self.config.windows

    @property
    def write_sums(self) -> str:
        return "families/stem_wgmma/pool_staged.j2"

    @property
    def roles(self) -> StemPoolRoles:
        roles = vars(super().roles) | {"tiles": "families/stem_wgmma/pool_tiles.j2"}
        return StemPoolRoles(**roles, overlapping=self.problem.window[1] == 3)

    @property
    def context(self) -> ConvolutionContext:
        made, (r, s) = context(self.problem.first), self.problem.window
        return replace(made, says=[*made.says, f"  z   = the largest y of each window of {r} x {s}"])

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        *before, main = super().launches
        return (*before, replace(main, kernel="conv2d_stem_pool"))

    @property
    def down(self) -> int:
        return tiles_down(self.problem, self.config)

    @property
    def across(self) -> int:
        return self.padded.tiles

    @property
    def strips(self) -> int:
        """Rows of tiles, each of one consumer."""
        return self.problem.n * self.down

    @property
    def pool_constants(self) -> dict[str, tuple[Constant, ...]]:
        pool, (rows_before, columns_before) = self.problem.rest, self.padded.before
        return {
            "The pool. The problem has its padding as well, as outputs of the convolution.": (
                Constant("WINDOW_H", pool.r),
                Constant("WINDOW_W", pool.s),
                Constant("BEFORE_ROWS", rows_before, "rows of padding above the convolution's outputs"),
                Constant("BEFORE_COLUMNS", columns_before, "and columns left of them"),
                Constant("CONVOLUTION_H", self.problem.oh, "rows of the convolution's outputs, without padding"),
                Constant("CONVOLUTION_W", self.problem.ow, "and columns"),
                Constant("FIRST_COLUMN", self.padded.first, "of the pool's output, with which the first tile begins"),
                Constant("STRIPS", self.strips, "rows of tiles, each of one consumer"),
            ),
        }

    @property
    def role_counts(self) -> tuple[Constant, ...]:
        _, team = super().role_counts
        return (Constant("CONSUMERS", CONSUMERS, "warpgroups that multiply, every second tile each"), team)

    @property
    def config_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("WINDOWS_DOWN", self.config.windows, "rows of windows of a tile, which is four windows wide"),
            Constant("TILE_H", self.rows, "rows of sums of a tile, which is eight pixels wide"),
        )


def rows(problem: PooledConv2d, config: StemPool) -> int:
    """Rows of sums of a tile. The number is even, because instructions have columns in sixteens."""
    of_window: int = problem.window[0]
    return 2 * (config.windows + of_window - 2)


def tiles_down(problem: PooledConv2d, config: StemPool) -> int:
    return ceil_div(problem.rest.oh, config.windows)


def why_none(problem: PooledConv2d, target: Target) -> str | None:
    """Why no config is feasible, or None."""
    if (reason := stem_wgmma.why_none(problem, target)) is not None:
        return reason
    q, (top, left, _, _) = problem.quantization, problem.window_pad
    if not q.types.sum.is_integer:
        return f"{q.types.w.name} by {q.types.x.name}: the largest of sums is found of integers; unfused serves it"
    if not is_staged(problem):
        return f"k={problem.k}: TMA stores rows of whole {CHUNK} bytes; unfused serves it"
    if problem.window_stride != (2, 2) or not set(problem.window) <= {2, 3}:
        return (
            f"window={problem.window} window_stride={problem.window_stride}: two pixels of a lane have a window of two "
            "or three; unfused serves it"
        )
    for name, size, pad in (("rows", problem.window[0], top), ("columns", problem.window[1], left)):
        if pad > size - 2:
            return f"window_pad={problem.window_pad}: windows of {size} {name} begin with their pair; unfused serves it"
    if q.activation not in IN_ORDER or q.table:
        return (
            f"activation={q.activation}, table={q.table}: only {', '.join(IN_ORDER)} keep the order of sums; unfused "
            "serves it"
        )
    return None


def plan(problem: PooledConv2d, config: StemPool, target: Target) -> StemPoolPlan:
    check_choices(config, CHOICES)
    instruction = warpgroup_of(problem, target, why_none(problem, target))
    padded = PaddedOutputs.of(problem)
    cells, pool = Cells.of(padded.convolution), problem.rest
    least = CHOICES["windows"][0]
    at_most(config.windows, max(least, 2 * pool.oh - 1), f"rows of windows of a tile (the problem has {pool.oh})")
    tile_rows = rows(problem, config)
    stem_wgmma.check_registers(4 * (tile_rows + cells.steps), CONSUMERS)
    made = StemPoolPlan(
        problem=problem,
        config=config,
        target=target,
        instruction=instruction,
        cells=cells,
        padded=padded,
        smem_bytes=stem_wgmma.smem_bytes(
            cells, padded.convolution, tile_rows, _outputs(config), _edges(problem, config)
        ),
        **_tiles(problem, config, padded, target),
    )
    at_most(made.smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    made.check_sizes(made.pixels)
    # The maps refuse what TMA cannot copy.
    assert made.fields
    return made


def _outputs(config: StemPool) -> int:
    """Bytes of staged outputs: two tiles per consumer, in whole fours of rows."""
    return 2 * CONSUMERS * ceil_div(config.windows, 4) * 4 * ACROSS * CHANNELS


def _edges(problem: PooledConv2d, config: StemPool) -> int:
    """Bytes of the sums that windows begin with, of each warp of a consumer."""
    of_warp = EDGE_HALVES * config.windows * 8 * ACROSS * EDGE_BYTES
    return 4 * CONSUMERS * of_warp if problem.window[1] == 3 else 0


def _tiles(problem: PooledConv2d, config: StemPool, padded: PaddedOutputs, target: Target) -> dict[str, int]:
    """Return the numbers of tiles and blocks: consumers take strips of tiles in turn, and all blocks are resident."""
    pool = problem.rest
    strips = problem.n * tiles_down(problem, config)
    channel_tiles = ceil_div(problem.k, CHANNELS)
    of_channels = min(ceil_div(strips, CONSUMERS), max(1, target.processors // channel_tiles))
    # A lane computes where the outputs of a tile begin, also for a strip past the last.
    images = problem.n + ceil_div(CONSUMERS * target.processors, tiles_down(problem, config))
    outputs = images * (pool.oh + config.windows) * (pool.ow + ACROSS) * problem.k
    at_most(outputs, 2**31 - 1, "outputs of whole tiles")
    tiles = channel_tiles * strips * padded.tiles
    return {"channel_tiles": channel_tiles, "tiles": tiles, "blocks": channel_tiles * of_channels}


def structure(config: StemPool) -> tuple[int, ...]:
    return (config.team,)


FAMILY = Family(
    ops=("conv2d_pool",),
    config=StemPool,
    choices=CHOICES,
    plan=plan,
    cost=cost,
    why_none=why_none,
    structure=structure,
)
