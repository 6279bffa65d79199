"""The `depthwise` family: every output channel filters one input channel. Memory limits it: inputs go from device
memory to registers and serve all outputs of a thread; four taps are one dot product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.dtypes import DATA_TYPES
from qconv.errors import Infeasible
from qconv.generator.convolution import (
    SPREAD_THREADS,
    aliases,
    argument_fields,
    fold_constants,
    fold_launches,
    input_span,
    problem_constants,
    spread_launch,
)
from qconv.generator.measure import launched, of_activation
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.plan import Untyped as Plan
from qconv.op import INT_MAX
from qconv.problem import Conv2d
from qconv.target import Target

# Of a thread, unrolled: what is longer compiles slowly or not at all, and does not stay in the instruction cache.
MOST_PRODUCTS = 6144
MOST_INPUT_ROWS = 24
# Filters, sums and pixels of a thread: more do not fit its registers.
MOST_WORDS = 144


@dataclass(frozen=True)
class Depthwise(Config):
    family: ClassVar[str] = "depthwise"
    rows: int  # of outputs of a thread
    columns: int  # of outputs of a thread
    vector: int  # channels of a thread
    run: int  # neighbouring outputs that share the words of the first
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
    """What stands against every config."""
    if problem.c_group != 1 or problem.groups == 1:
        return f"a depthwise layer has groups=c (here groups={problem.groups}, c={problem.c})"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    return None


def plan(problem: Conv2d, config: Depthwise, target: Target) -> Plan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    q, vector = problem.quantization, config.vector
    # Otherwise channels are read and written one by one.
    gathers = problem.k_group > 1 or problem.c % 4 != 0
    if vector > 4 and (gathers or problem.k % vector):
        raise Infeasible(f"vector={vector} channels of a thread do not divide {problem.k}; 4 does for any")
    for name, size in (("rows", problem.oh), ("columns", problem.ow)):
        at_most(getattr(config, name), max(1, 2 * size - 1), f"{name} (the problem has {size})")
    at_most(config.threads, target.threads_per_block, "threads of a block")
    words = ceil_div(problem.s, 4)
    if config.columns % config.run:
        raise Infeasible(f"columns={config.columns} must be a multiple of run={config.run}")
    if config.run > 1 and problem.dilation[1] > 1:
        raise Infeasible(f"run={config.run}: the taps of a filter lie {problem.dilation[1]} apart")
    taken = problem.s + (config.run - 1) * problem.stride[1]
    at_most(taken, 4 * words, f"run={config.run}: taps in the {words} words of a filter row")
    at_most(config.rows * config.columns * vector * problem.r * words, MOST_PRODUCTS, "dot products of a thread")
    height, _ = _span(problem, config)
    at_most(height, MOST_INPUT_ROWS, "input rows of a thread")
    # A tile may reach beyond the last output; how far its last row lies from its first is an int.
    at_most(height * problem.w * problem.c, INT_MAX, "elements of the input rows of a thread")
    held = held_words(problem, config.rows, config.columns, vector, config.run)
    at_most(held, MOST_WORDS, "registers for filters, pixels and sums")
    tiles_h, tiles_w = ceil_div(problem.oh, config.rows), ceil_div(problem.ow, config.columns)
    vectors = ceil_div(problem.k, vector)
    units = problem.n * tiles_h * tiles_w * vectors
    taps = problem.r * words * vectors * vector
    at_most(units, INT_MAX - config.threads, "threads")

    spread = Field("taps", "int*", "workspace", "the filters, four taps of a channel to a word", None, taps)
    of_thread = 1 if gathers else vector
    alignment = {"x": of_thread, "w": 1, "y": min(16, of_thread * DATA_TYPES[q.out_type].bytes)}
    if q.residual != "none":
        alignment["residual"] = min(16, of_thread * DATA_TYPES[q.residual].bytes)
    constants = {
        "The problem.": problem_constants(problem, filter_rows=True),
        "The config.": (
            Constant("ROWS", config.rows, "of outputs of a thread"),
            Constant("COLUMNS", config.columns, "of outputs of a thread"),
            Constant("VECTOR", vector, "channels of a thread"),
            Constant("RUN", config.run, "neighbouring outputs that share the words of the first"),
            Constant("THREADS", config.threads),
        ),
        "What follows.": (
            Constant("WORDS", words, "of four taps in a filter row"),
            Constant("TILES_H", tiles_h),
            Constant("TILES_W", tiles_w),
            Constant("VECTORS", vectors, "of channels"),
            Constant("UNITS", units, "threads that have outputs"),
            *fold_constants(problem),
        ),
    }
    main = Launch("conv2d_depthwise", (ceil_div(units, config.threads), 1, 1), config.threads, 0)
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="conv2d/depthwise.j2",
        constants=constants,
        launches=(*fold_launches(problem), spread_launch(taps), main),
        fields=argument_fields(problem, (spread,)),
        alignment=alignment,
        aliases=aliases(problem),
        roles={"gathers": gathers, "spread_threads": SPREAD_THREADS},
        wants=("bytes",),
    )


def _span(problem: Conv2d, config: Depthwise) -> tuple[int, int]:
    """Input rows and columns that a thread's outputs look at."""
    return input_span(problem, config.rows, config.columns)


def held_words(problem: Conv2d, rows: int, columns: int, vector: int, run: int) -> int:
    """What a thread holds at a time: its filters, a row of pixels, the sums of the outputs that look at that row."""
    _, width = input_span(problem, rows, columns)
    open_rows = min(rows, ceil_div((problem.r - 1) * problem.dilation[0] + 1, problem.stride[0]))
    sums = open_rows * columns * vector * (1 + problem.quantization.w_zero_point)
    filters = run * problem.r * ceil_div(problem.s, 4) * vector
    return filters + sums + width * vector // 4 + vector


# Of the clocks counted here an H200 took so much, of 120 kernels: more overlaps than is told apart.
FITTED = 0.43


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Depthwise)
    assert isinstance(problem, Conv2d)
    height, width = _span(problem, config)
    words, quads = ceil_div(problem.s, 4), config.vector // 4
    # Instructions of a thread, counted in the binaries: what each loaded pixel takes, and each output.
    of_pixel = 4 + quads * (2.5 if config.run > 1 else 4) if not plan.roles["gathers"] else 24
    outputs = config.rows * config.columns * config.vector
    of_output = 1.3 * problem.r * words * (1 + problem.quantization.w_zero_point) + 6.5
    of_output += of_activation(problem)
    work = height * width * of_pixel + outputs * of_output + 80
    blocks = plan.main.grid[0]
    if target.vendor == "cpu":  # one thread after the other
        return blocks * config.threads * work / 40
    held_by_thread = held_words(problem, config.rows, config.columns, config.vector, config.run)
    registers = min(255.0, 24 + 0.6 * held_by_thread)
    resident = max(
        1, min(int(target.registers_per_sm / (registers * config.threads)), target.threads_per_sm // config.threads)
    )
    held = min(resident, ceil_div(blocks, target.processors))
    warps = held * config.threads // target.warp_size
    # So few instructions a clock as the warps allow: each waits for its own.
    step = warps * work / min(2.7, warps / 8)
    return launched(problem, target, FITTED * (ceil_div(blocks, held * target.processors) * (step + 1500) + 1200))
