"""The `depthwise` family: each output channel filters one input channel. It is bound by memory: a thread loads inputs
from device memory into registers and uses them for all of its outputs. Four taps are one dot product."""

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
from qconv.generator.expect.features import filled, log, rounds
from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Field, Launch, Roles, WaitingPlan, at_most, ceil_div, check_choices
from qconv.op import INT_MAX
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Unrolled dot products per thread. More compile slowly or not at all, and overflow the instruction cache.
MOST_PRODUCTS = 6144
MOST_INPUT_ROWS = 24
# Words of filters, sums and pixels per thread. More do not fit into its registers.
MOST_WORDS = 144


@dataclass(frozen=True)
class Depthwise(Config):
    family: ClassVar[str] = "depthwise"
    rows: int  # output rows per thread
    columns: int  # output columns per thread
    vector: int  # channels per thread
    run: int  # neighbouring outputs that use the same words of pixels
    threads: int


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (1, 2, 4, 7, 8, 14),
    "columns": (1, 2, 4, 8),
    "vector": (4, 8, 16),
    "run": (1, 2),
    "threads": (64, 128, 256),
}
LIKELY: dict[str, tuple[int, ...]] = {"threads": (128,)}


def why_none(problem: Conv2d, _target: Target) -> str | None:
    """Return why no config is feasible, or None."""
    if problem.c_group != 1 or problem.groups == 1:
        return f"a depthwise layer has groups=c (here groups={problem.groups}, c={problem.c})"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    return why_not_bytes(problem)


# Measured clocks over counted clocks, for 120 kernels on an H200: more overlaps than the model describes.
FITTED = 0.43


@dataclass(frozen=True)
class DepthwiseRoles(Roles):
    gathers: bool
    repack_threads: int = REPACK_THREADS


@dataclass(frozen=True)
class DepthwisePlan(WaitingPlan, ConvolutionPlan):
    page: ClassVar[str] = "families/depthwise/page.j2"

    problem: Conv2d
    config: Depthwise
    gathers: bool  # a thread's channels are loaded and stored in parts
    words: int  # words of four taps per filter row
    in_rows: int  # input rows that a thread reads
    in_columns: int
    register_words: int  # words that a thread holds at a time
    tiles_h: int
    tiles_w: int
    vectors: int  # vectors of channels
    units: int  # threads with outputs

    @property
    def blocks(self) -> int:
        return ceil_div(self.units, self.config.threads)

    @property
    def load_k(self) -> int:
        """Channels of a pixel per load."""
        return gcd(self.problem.c, self.config.vector) if self.problem.k_group == 1 else 1

    @property
    def store_k(self) -> int:
        """Channels of a pixel per store."""
        return gcd(self.problem.k, self.config.vector)

    @property
    def taps(self) -> int:
        """Words of all filters."""
        return self.problem.r * self.words * self.vectors * self.config.vector

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_depthwise", (self.blocks, 1, 1), self.config.threads, 0)
        return (*fold_launches(self.problem), repack_launch(self.taps), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        says = "filters, four taps of a channel per word"
        return argument_fields(self.problem, (Field("taps", "int*", "workspace", says, None, self.taps),))

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        alignment = {"x": self.load_k, "w": 1, "y": min(16, self.store_k * t.y.bytes)}
        if t.residual is not None:
            of_residual = 1 if self.gathers else self.config.vector
            alignment["residual"] = min(16, of_residual * t.residual.bytes)
        return alignment

    @property
    def roles(self) -> DepthwiseRoles:
        return DepthwiseRoles(self.gathers)

    @property
    def wants(self) -> tuple[str, ...]:
        return ("bytes", *("kept",) * self.overlaps, *super().wants)

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
                Constant("WORDS", self.words, "words of four taps per filter row"),
                Constant("TILES_H", self.tiles_h),
                Constant("TILES_W", self.tiles_w),
                Constant("VECTORS", self.vectors, "vectors of channels"),
                Constant("UNITS", self.units, "threads with outputs"),
                *fold_constants(self.problem),
            ),
        }

    def cost(self) -> float:
        config, problem, target = self.config, self.problem, self.target
        # Instructions per thread, counted in the binaries: per loaded pixel and per output.
        quads = config.vector // 4
        of_pixel = 4 + quads * (2.5 if config.run > 1 else 4) if not self.gathers else 4 + 20 // self.load_k
        outputs = config.rows * config.columns * config.vector
        of_output = 1.3 * problem.r * self.words * (1 + problem.quantization.w_zero_point) + 6.5
        of_output += of_activation(problem)
        work = self.in_rows * self.in_columns * of_pixel + outputs * of_output + 80
        blocks = self.blocks
        # one thread runs after the other
        if target.vendor == "cpu":
            return blocks * config.threads * work / 40
        per_sm = min(self.resident, ceil_div(blocks, target.processors))
        warps = per_sm * config.threads // target.warp_size
        # The warps issue few instructions per clock, because each waits for its own results.
        step = warps * work / min(2.7, warps / 8)
        rounds = ceil_div(blocks, per_sm * target.processors)
        return launched(problem, target, FITTED * (rounds * (step + 1500) + 1200))

    @property
    def resident(self) -> int:
        """Resident blocks per multiprocessor, estimated."""
        target, threads = self.target, self.config.threads
        registers = min(255.0, 24 + 0.6 * self.register_words)
        return max(1, min(int(target.registers_per_sm / (registers * threads)), target.threads_per_sm // threads))


def plan(problem: Conv2d, config: Depthwise, target: Target) -> DepthwisePlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    gathers = problem.k_group > 1 or problem.c % 4 != 0
    words = ceil_div(problem.s, 4)
    _check_tile(problem, config, gathers, target)
    _check_run(problem, config, words)
    products = config.rows * config.columns * config.vector * problem.r * words
    at_most(products, MOST_PRODUCTS, "dot products of a thread")
    in_rows, in_columns = input_span(problem, config.rows, config.columns)
    at_most(in_rows, MOST_INPUT_ROWS, "input rows of a thread")
    # A tile may reach past the last output. The offset of its last row from its first has to fit an int.
    at_most(in_rows * problem.w * problem.c, INT_MAX, "elements of the input rows of a thread")
    register_words = words_in_registers(problem, config.rows, config.columns, config.vector, config.run)
    at_most(register_words, MOST_WORDS, "registers for filters, pixels and sums")
    tiles_h, tiles_w = ceil_div(problem.oh, config.rows), ceil_div(problem.ow, config.columns)
    vectors = ceil_div(problem.k, config.vector)
    units = problem.n * tiles_h * tiles_w * vectors
    at_most(units, INT_MAX - config.threads, "threads")
    return DepthwisePlan(
        problem=problem,
        config=config,
        target=target,
        gathers=gathers,
        words=words,
        in_rows=in_rows,
        in_columns=in_columns,
        register_words=register_words,
        tiles_h=tiles_h,
        tiles_w=tiles_w,
        vectors=vectors,
        units=units,
    )


def _check_tile(problem: Conv2d, config: Depthwise, gathers: bool, target: Target) -> None:
    """Check that a thread's outputs are whole vectors of channels, most of which exist."""
    if config.vector > 4 and (gathers or problem.k % config.vector):
        raise Infeasible(f"vector={config.vector} channels of a thread do not divide {problem.k}; 4 does for any")
    for name, size in (("rows", problem.oh), ("columns", problem.ow)):
        at_most(getattr(config, name), max(1, 2 * size - 1), f"{name} (the problem has {size})")
    at_most(config.threads, target.threads_per_block, "threads of a block")


def _check_run(problem: Conv2d, config: Depthwise, words: int) -> None:
    """Check that the outputs of a run find all their taps in the words of the first one."""
    if config.columns % config.run:
        raise Infeasible(f"columns={config.columns} must be a multiple of run={config.run}")
    if config.run > 1 and problem.dilation[1] > 1:
        raise Infeasible(f"run={config.run}: the taps of a filter lie {problem.dilation[1]} apart")
    taken = problem.s + (config.run - 1) * problem.stride[1]
    at_most(taken, 4 * words, f"run={config.run}: taps in the {words} words of a filter row")


def words_in_registers(problem: Conv2d, rows: int, columns: int, vector: int, run: int) -> int:
    """Return the words that a thread holds at a time: its filters, a row of pixels, and the sums of all outputs that
    use that row."""
    _, width = input_span(problem, rows, columns)
    open_rows = min(rows, ceil_div((problem.r - 1) * problem.dilation[0] + 1, problem.stride[0]))
    sums = open_rows * columns * vector * (1 + problem.quantization.w_zero_point)
    filters = run * problem.r * ceil_div(problem.s, 4) * vector
    return filters + sums + width * vector // 4 + vector


def features(plan: DepthwisePlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    problem, config, processors = plan.problem, plan.config, plan.target.processors
    of_thread = config.rows * config.columns
    return {
        "rows_filled": filled(problem.oh, config.rows),
        "columns_filled": filled(problem.ow, config.columns),
        "registers": log(plan.register_words),
        "outputs": log(of_thread * config.vector),
        "overlap": plan.in_rows * plan.in_columns / of_thread,
        "gathers": float(plan.gathers),
        **rounds("rounds", "last_round", plan.blocks / (plan.resident * processors)),
        "warps_per_sm": log(plan.units / processors / plan.target.warp_size),
        "threads_filled": filled(plan.units, config.threads),
        "vectors": log(plan.vectors),
    }


FAMILY = Family(
    ops=("conv2d",),
    config=Depthwise,
    choices=CHOICES,
    plan=plan,
    cost=DepthwisePlan.cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
