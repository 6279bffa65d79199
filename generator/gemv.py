"""The `gemv` family: layers of few pixels whose windows are rows of bytes, as 1x1 filters on 1x1 images. They wait for
memory and for launches alone, so that all bytes are asked for at once, by as many threads as there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from qconv.dtypes import DATA_TYPES
from qconv.errors import Infeasible
from qconv.generator.convolution import aliases, argument_fields, fold_constants, fold_launches, problem_constants
from qconv.generator.plan import Config, Constant, Launch, at_most, ceil_div, check_choices
from qconv.generator.plan import Untyped as Plan
from qconv.problem import Conv2d
from qconv.target import Target

# With more, operands are worth sharing through a tile.
MOST_PIXELS = 512
# Of a thread, of operands in flight.
MOST_WORDS = 96


@dataclass(frozen=True)
class Gemv(Config):
    family: ClassVar[str] = "gemv"
    pixels: int  # of a thread
    channels: int  # of a thread
    lanes: int  # threads that share a window
    threads: int


CHOICES: dict[str, tuple[int, ...]] = {
    "pixels": (1, 2, 4, 8),
    "channels": (1, 2, 4),
    "lanes": (2, 4, 8, 16, 32),
    "threads": (32, 64, 128, 256),
}
LIKELY: dict[str, tuple[int, ...]] = {"channels": (1, 2), "lanes": (8, 16, 32), "threads": (64, 128)}


def why_none(problem: Conv2d, _target: Target) -> str | None:
    """What stands against every config."""
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if problem.groups != 1:
        return f"groups={problem.groups}: a window is a row of bytes in one group alone"
    one_tap = problem.r * problem.s == 1
    whole_image = (problem.r, problem.s) == (problem.h, problem.w)
    if any(problem.pad) or not (one_tap or whole_image):
        return f"a {problem.r}x{problem.s} window of {problem.h}x{problem.w} pixels, padded {problem.pad}, is no row"
    if problem.pixels > MOST_PIXELS:
        return f"{problem.pixels} output pixels: at most {MOST_PIXELS}; with more, operands are worth sharing"
    return None


def plan(problem: Conv2d, config: Gemv, target: Target) -> Plan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    q = problem.quantization
    gathers = problem.reduction % 4 != 0
    words = 1 if gathers else math.gcd(16, problem.reduction) // 4
    pieces = ceil_div(problem.reduction, 4 * words)
    teams = config.threads // config.lanes
    if config.threads % target.warp_size:
        raise Infeasible(f"threads={config.threads} leave a warp of {target.warp_size} incomplete")
    if teams == 0:
        raise Infeasible(f"threads={config.threads} are fewer than lanes={config.lanes}")
    outputs = teams * config.channels * config.pixels
    at_most(outputs, config.threads, "outputs of a block's threads, each with at most one")
    at_most(config.lanes, max(min(CHOICES["lanes"]), 2 * pieces - 1), f"lanes (a window has {pieces} pieces)")
    at_most(config.pixels, max(1, 2 * problem.pixels - 1), f"pixels (the problem has {problem.pixels})")
    team_k = teams * config.channels
    if config.threads > target.warp_size:
        at_most(team_k, 2 * problem.k - 1, f"output channels of a block (the problem has {problem.k})")
    turns = ceil_div(pieces, config.lanes)
    held = words * (config.channels + config.pixels)
    at_most(held, MOST_WORDS, "registers of a thread for operands")
    k_blocks = ceil_div(problem.k, team_k)
    blocks = k_blocks * ceil_div(problem.pixels, config.pixels)
    smem_bytes = 4 * (config.lanes + 1) * (outputs + config.pixels * q.w_zero_point)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    row_bytes = 1 if gathers else 4 * words
    y_bytes = DATA_TYPES[q.out_type].bytes
    constants = {
        "The problem.": problem_constants(problem),
        "The config.": (
            Constant("ROWS", config.pixels, "pixels of a thread"),
            Constant("CHANNELS", config.channels, "output channels of a thread"),
            Constant("LANES", config.lanes, "threads that share a window"),
            Constant("THREADS", config.threads),
        ),
        "What follows.": (
            Constant("WORDS", words, "of a piece of a window"),
            Constant("PIECES", pieces),
            Constant("OUTPUTS", outputs, "of a block"),
            Constant("K_BLOCKS", k_blocks, "blocks that share pixels"),
            Constant("SMEM_BYTES", smem_bytes),
            *fold_constants(problem),
        ),
    }
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="conv2d/gemv.j2",
        constants=constants,
        launches=(*fold_launches(problem), Launch("conv2d_gemv", (blocks, 1, 1), config.threads, smem_bytes)),
        fields=argument_fields(problem),
        alignment={"x": row_bytes, "w": row_bytes, "y": y_bytes}
        | ({} if q.residual == "none" else {"residual": DATA_TYPES[q.residual].bytes}),
        aliases=aliases(problem),
        roles={"gathers": gathers, "unroll": max(1, min(turns, MOST_WORDS // held))},
    )


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor: once there and back, and what the lanes do."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Gemv)
    assert isinstance(problem, Conv2d)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    turns, words = ceil_div(constant["PIECES"], config.lanes), constant["WORDS"]
    loads = config.channels + config.pixels
    work = turns * (loads * (14 if plan.roles["gathers"] else 2) + config.channels * config.pixels * words * 1.2 + 3)
    work += config.channels * config.pixels * 2 + 2 * config.lanes + 60
    warps = ceil_div(config.threads, target.warp_size) * plan.main.grid[0]
    if target.vendor == "cpu":  # one thread after the other
        return warps * target.warp_size * work / 40
    of_processor = ceil_div(warps, target.processors)
    waits = ceil_div(turns, plan.roles["unroll"]) * 700
    bytes_of_processor = of_processor * target.warp_size * turns * loads * words * 4
    return 2500 + waits + work + max(of_processor * work / 2.5, bytes_of_processor / 32)
