"""The `gemv` family: layers with few output pixels whose windows are contiguous bytes, such as 1x1 filters on 1x1
images. They are bound by the latency of memory and launches, so as many threads as possible load all bytes at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.convolution import (
    ConvolutionPlan,
    argument_fields,
    fold_constants,
    fold_launches,
    problem_constants,
    why_not_bytes,
)
from qconv.generator.expect.features import log
from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Field, Launch, Roles, WaitingPlan, at_most, ceil_div, check_choices
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# With more pixels than this, sharing operands through a tile pays.
MOST_PIXELS = 512
# Words of operands that a thread has in flight.
MOST_WORDS = 96


@dataclass(frozen=True)
class Gemv(Config):
    family: ClassVar[str] = "gemv"
    pixels: int  # output pixels per thread
    channels: int  # output channels per thread
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
    """Return why no config is feasible, or None."""
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
    return why_not_bytes(problem)


@dataclass(frozen=True)
class GemvRoles(Roles):
    gathers: bool
    unroll: int


@dataclass(frozen=True)
class GemvPlan(WaitingPlan, ConvolutionPlan):
    page: ClassVar[str] = "families/gemv.j2"

    problem: Conv2d
    config: Gemv
    gathers: bool  # windows are read byte by byte
    words: int  # words per vector of a window
    vectors: int  # vectors per window
    turns: int  # iterations of the lanes over a window
    unroll: int  # iterations whose operands a thread has in flight
    outputs: int  # outputs per block
    k_blocks: int  # blocks that share pixels
    blocks: int
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_gemv", (self.blocks, 1, 1), self.config.threads, self.smem_bytes)
        return (*fold_launches(self.problem), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return argument_fields(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        t, row_bytes = self.problem.quantization.types, 1 if self.gathers else 4 * self.words
        alignment = {"x": row_bytes, "w": row_bytes, "y": t.y.bytes}
        if t.residual is not None:
            alignment["residual"] = t.residual.bytes
        return alignment

    @property
    def roles(self) -> GemvRoles:
        return GemvRoles(self.gathers, self.unroll)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config = self.config
        return {
            "The problem.": problem_constants(self.problem),
            "The config.": (
                Constant("ROWS", config.pixels, "output pixels per thread"),
                Constant("CHANNELS", config.channels, "output channels per thread"),
                Constant("LANES", config.lanes, "threads that share a window"),
                Constant("THREADS", config.threads),
            ),
            "Derived values.": (
                Constant("WORDS", self.words, "words per vector of a window"),
                Constant("VECTORS", self.vectors, "vectors per window"),
                Constant("OUTPUTS", self.outputs, "outputs per block"),
                Constant("K_BLOCKS", self.k_blocks, "blocks that share pixels"),
                Constant("SMEM_BYTES", self.smem_bytes),
                *fold_constants(self.problem),
            ),
        }

    def cost(self) -> float:
        """Return the clocks of one round trip to memory and of the lanes' instructions."""
        config, target = self.config, self.target
        loads, products = config.channels + config.pixels, config.channels * config.pixels
        work = self.turns * (loads * (14 if self.gathers else 2) + products * self.words * 1.2 + 3)
        work += products * 2 + 2 * config.lanes + 60
        warps = ceil_div(config.threads, target.warp_size) * self.blocks
        # one thread runs after the other
        if target.vendor == "cpu":
            return warps * target.warp_size * work / 40
        of_processor = ceil_div(warps, target.processors)
        waits = ceil_div(self.turns, self.unroll) * 700
        bytes_of_processor = of_processor * target.warp_size * self.turns * loads * self.words * 4
        return 2500 + waits + work + max(of_processor * work / 2.5, bytes_of_processor / 32)


def plan(problem: Conv2d, config: Gemv, target: Target) -> GemvPlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    gathers = problem.reduction % 4 != 0
    words = 1 if gathers else math.gcd(16, problem.reduction) // 4
    vectors = ceil_div(problem.reduction, 4 * words)
    teams = _teams(config, target)
    outputs = teams * config.channels * config.pixels
    at_most(outputs, config.threads, "outputs of a block's threads, each with at most one")
    team_k = teams * config.channels
    _check_useful(problem, config, vectors, team_k, target)
    turns = ceil_div(vectors, config.lanes)
    operand_words = words * (config.channels + config.pixels)
    at_most(operand_words, MOST_WORDS, "registers of a thread for operands")
    k_blocks = ceil_div(problem.k, team_k)
    smem_bytes = 4 * (config.lanes + 1) * (outputs + config.pixels * problem.quantization.w_zero_point)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    return GemvPlan(
        problem=problem,
        config=config,
        target=target,
        gathers=gathers,
        words=words,
        vectors=vectors,
        turns=turns,
        unroll=max(1, min(turns, MOST_WORDS // operand_words)),
        outputs=outputs,
        k_blocks=k_blocks,
        blocks=k_blocks * ceil_div(problem.pixels, config.pixels),
        smem_bytes=smem_bytes,
    )


def _teams(config: Gemv, target: Target) -> int:
    """Return the teams of `lanes` threads per block. Raises Infeasible where a block is not whole warps or teams."""
    if config.threads % target.warp_size:
        raise Infeasible(f"threads={config.threads} leave a warp of {target.warp_size} incomplete")
    teams = config.threads // config.lanes
    if teams == 0:
        raise Infeasible(f"threads={config.threads} are fewer than lanes={config.lanes}")
    return teams


def _check_useful(problem: Conv2d, config: Gemv, vectors: int, team_k: int, target: Target) -> None:
    """Reject blocks most of whose lanes, pixels or channels do not exist in the problem."""
    at_most(config.lanes, max(min(CHOICES["lanes"]), 2 * vectors - 1), f"lanes (a window has {vectors} vectors)")
    at_most(config.pixels, max(1, 2 * problem.pixels - 1), f"pixels (the problem has {problem.pixels})")
    if config.threads > target.warp_size:
        at_most(team_k, 2 * problem.k - 1, f"output channels of a block (the problem has {problem.k})")


def features(plan: GemvPlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    return {
        "turns": log(plan.turns),
        "unroll": log(plan.unroll),
        "outputs": log(plan.outputs),
        "k_blocks": log(plan.k_blocks),
        "gathers": float(plan.gathers),
    }


FAMILY = Family(
    ops=("conv2d",),
    config=Gemv,
    choices=CHOICES,
    plan=plan,
    cost=GemvPlan.cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
