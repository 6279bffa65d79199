"""The plan of `depthwise`, of bytes as of floats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import (
    REPACK_THREADS,
    ConvolutionPlan,
    argument_fields,
    fold_constants,
    fold_launches,
    input_span,
    problem_constants,
    repack_launch,
    why_not_bytes,
)
from qconv.generator.cost_units import launched, of_activation
from qconv.generator.families.depthwise.bytes import byte_products
from qconv.generator.families.depthwise.config import CHOICES, Depthwise
from qconv.generator.families.depthwise.floats import float_products
from qconv.generator.families.depthwise.products import Products
from qconv.generator.plan import Constant, Field, Launch, Roles, WaitingPlan, at_most, ceil_div, check_choices
from qconv.op import INT_MAX
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

MOST_INPUT_ROWS = 24


def why_none(problem: Conv2d, _target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    if problem.c_group != 1 or problem.groups == 1:
        return f"a depthwise layer has groups=c (here groups={problem.groups}, c={problem.c})"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    return None if multiplies_floats(problem) else why_not_bytes(problem)


def multiplies_floats(problem: Conv2d) -> bool:
    """True where elements are converted to the type of their sums, which has what reads them from words."""
    t = problem.quantization.types
    return bool(t.x.word and t.w.word)


@dataclass(frozen=True)
class DepthwiseRoles(Roles):
    elements: str
    gathers: bool
    repack_threads: int = REPACK_THREADS


@dataclass(frozen=True)
class DepthwisePlan(WaitingPlan, ConvolutionPlan):
    page: ClassVar[str] = "families/depthwise/page.j2"

    problem: Conv2d
    config: Depthwise
    gathers: bool  # a thread's channels are loaded and stored in parts
    products: Products
    in_rows: int  # input rows that a thread reads
    in_columns: int
    tiles_h: int
    tiles_w: int
    vectors: int  # vectors of channels
    units: int  # threads with outputs

    @property
    def blocks(self) -> int:
        return ceil_div(self.units, self.config.threads)

    @property
    def load_k(self) -> int:
        return load_k(self.problem, self.config)

    @property
    def store_k(self) -> int:
        """Channels of a pixel per store."""
        return gcd(self.problem.k, self.config.vector)

    @property
    def loaded(self) -> str:
        """Return the C type of a load that fills no word."""
        return {1: "unsigned char", 2: "unsigned short"}[min(2, self.load_k * self.problem.quantization.types.x.bytes)]

    @property
    def taps(self) -> int:
        """Words of all filters."""
        return self.products.words * self.vectors * self.config.vector

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_depthwise", (self.blocks, 1, 1), self.config.threads, 0)
        return (*fold_launches(self.problem), repack_launch(self.taps), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says, ctype = self.products.says, f"{self.products.ctype}*"
        return argument_fields(self.problem, (Field("taps", ctype, "workspace", says, None, self.taps),))

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        x, y = self.load_k * t.x.bytes, self.store_k * t.y.bytes
        alignment = {"x": min(16, x), "w": t.w.bytes, "y": min(16, y)}
        if t.residual is not None:
            of_residual = 1 if self.gathers else self.config.vector
            alignment["residual"] = min(16, of_residual * t.residual.bytes)
        return alignment

    @property
    def dot(self) -> str:
        return super().dot if self.products.dots else "nothing.j2"

    @property
    def roles(self) -> DepthwiseRoles:
        return DepthwiseRoles(self.products.elements, self.gathers)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config = self.config
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": (
                Constant("ROWS", config.rows, "output rows per thread"),
                Constant("COLUMNS", config.columns, "output columns per thread"),
                Constant("VECTOR", config.vector, "channels per thread"),
                Constant("RUN", config.run, "neighbouring outputs that use the same words of pixels"),
                Constant("THREADS", config.threads),
            ),
            "Derived values.": (
                *self.products.constants,
                Constant("TILES_H", self.tiles_h),
                Constant("TILES_W", self.tiles_w),
                Constant("VECTORS", self.vectors, "vectors of channels"),
                Constant("UNITS", self.units, "threads with outputs"),
                *fold_constants(self.problem),
            ),
        }

    def cost(self) -> float:
        config, problem, target, products = self.config, self.problem, self.target, self.products
        outputs = config.rows * config.columns * config.vector
        of_outputs = outputs * (products.of_output + of_activation(problem))
        work = self.in_rows * self.in_columns * products.of_pixel + of_outputs + products.of_thread
        blocks = self.blocks
        # one thread runs after the other
        if target.vendor == "cpu":
            return blocks * config.threads * work / 40
        per_sm = min(self.resident, ceil_div(blocks, target.processors))
        warps = per_sm * config.threads // target.warp_size
        step = warps * work / products.rate(warps, work / self.in_rows)
        rounds = ceil_div(blocks, per_sm * target.processors)
        return launched(problem, target, products.fitted * (rounds * (step + products.first) + products.start))

    @property
    def resident(self) -> int:
        """Resident blocks per multiprocessor, estimated."""
        target, threads = self.target, self.config.threads
        registers = min(255.0, self.products.registers)
        return max(1, min(int(target.registers_per_sm / (registers * threads)), target.threads_per_sm // threads))


def load_k(problem: Conv2d, config: Depthwise) -> int:
    """Return the channels of a pixel per load."""
    return gcd(problem.c, config.vector) if problem.k_group == 1 else 1


def plan(problem: Conv2d, config: Depthwise, target: Target) -> DepthwisePlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    gathers = problem.k_group > 1 or problem.c % config.vector != 0
    _check_tile(problem, config, gathers, target)
    make = float_products if multiplies_floats(problem) else byte_products
    products = make(problem, config, gathers, load_k(problem, config))
    in_rows, in_columns = input_span(problem, config.rows, config.columns)
    at_most(in_rows, MOST_INPUT_ROWS, "input rows of a thread")
    # A tile may reach past the last output. The offset of its last row from its first has to fit an int.
    at_most(in_rows * problem.w * problem.c, INT_MAX, "elements of the input rows of a thread")
    tiles_h, tiles_w = ceil_div(problem.oh, config.rows), ceil_div(problem.ow, config.columns)
    vectors = ceil_div(problem.k, config.vector)
    units = problem.n * tiles_h * tiles_w * vectors
    at_most(units, INT_MAX - config.threads, "threads")
    return DepthwisePlan(
        problem=problem,
        config=config,
        target=target,
        gathers=gathers,
        products=products,
        in_rows=in_rows,
        in_columns=in_columns,
        tiles_h=tiles_h,
        tiles_w=tiles_w,
        vectors=vectors,
        units=units,
    )


def _check_tile(problem: Conv2d, config: Depthwise, gathers: bool, target: Target) -> None:
    """Check that a thread's outputs are whole vectors of channels, most of which exist."""
    if config.vector > 4 and gathers:
        raise Infeasible(f"vector={config.vector} channels of a thread do not divide {problem.k}; 4 does for any")
    for name, size in (("rows", problem.oh), ("columns", problem.ow)):
        at_most(getattr(config, name), max(1, 2 * size - 1), f"{name} (the problem has {size})")
    at_most(config.threads, target.threads_per_block, "threads of a block")
