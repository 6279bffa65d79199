"""The `shuffle` family: interleaves the channels of several groups, at the speed of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import constants_of, order
from qconv.generator.plan import Config, Constant, Context, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.op import WIDEST, alignment
from qconv.targets.target import Target
from qconv.tensor_ops import ChannelShuffle

# Bytes per thread, all of which are in registers.
MOST_HELD = 64


@dataclass(frozen=True)
class ShuffleConfig(Config):
    family: ClassVar[str] = "shuffle"
    threads: int
    vector: int  # neighbouring elements of a group per load
    unroll: int  # vectors of every group that a thread has in flight


CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256), "vector": (1, 2, 4, 8, 16), "unroll": (1, 2, 4)}


@dataclass(frozen=True)
class ShufflePlan(WaitingPlan):
    page: ClassVar[str] = "families/tensor_ops/shuffle.j2"

    problem: ChannelShuffle
    config: ShuffleConfig
    blocks: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("channel_shuffle", (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("x", "const X*", "x", "input, group after group"),
            Field("y", "X*", "y", "output: the first channel of each group, the second of each, ..."),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"x": self.config.vector, "y": self.stored}

    @cached_property
    def stored(self) -> int:
        """Elements per store."""
        return alignment(self.problem.groups * self.config.vector, WIDEST)

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": self.problem.x_type}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        problem, config = self.problem, self.config
        return {
            "The problem.": (
                Constant("ELEMENTS_OF_GROUP", problem.rows * problem.width, "elements per group, in all rows"),
                Constant("GROUPS", problem.groups),
                Constant("WIDTH", problem.width, "channels per group"),
            ),
            "The config.": constants_of(config),
            "Derived values.": (
                Constant("ROWS", config.unroll, "rows of vectors of a group, per block"),
                Constant("STORED", self.stored, "neighbouring outputs per store"),
            ),
        }

    @property
    def context(self) -> Context:
        return Context(says=["  y[row][i][group] = x[row][group][i]"])

    def cost(self) -> float:
        config = self.config
        return order(config.threads, config.vector, self.problem.groups * config.unroll, self.blocks)


def plan(problem: ChannelShuffle, config: ShuffleConfig, target: Target) -> ShufflePlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    if problem.width % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide the width {problem.width} of a group")
    thread_bytes = problem.groups * config.vector * config.unroll
    if config.vector * config.unroll > 1:
        at_most(thread_bytes, MOST_HELD, f"bytes of a thread, of {problem.groups} groups")
    tile = config.threads * config.vector * config.unroll
    return ShufflePlan(problem, config, target, ceil_div(problem.rows * problem.width, tile))


FAMILY = Family(
    ops=("channel_shuffle",),
    config=ShuffleConfig,
    choices=CHOICES,
    plan=plan,
    cost=ShufflePlan.cost,
    predicts_time=False,
)
