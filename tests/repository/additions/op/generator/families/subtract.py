"""The `subtract` family: one element per thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Context, Field, Launch, Plan, ceil_div, check_choices
from qconv.ops.subtract import Subtract
from qconv.targets.target import Target

CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256)}


@dataclass(frozen=True)
class SubtractConfig(Config):
    family: ClassVar[str] = "subtract"
    threads: int


@dataclass(frozen=True)
class SubtractPlan(Plan):
    page: ClassVar[str] = "families/subtract.j2"

    problem: Subtract
    config: SubtractConfig
    blocks: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("subtract", (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("a", "const X*", "a", "one array"),
            Field("b", "const X*", "b", "the other"),
            Field("y", "X*", "y", "their difference"),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"a": 1, "b": 1, "y": 1}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": "int8"}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": (Constant("COUNT", self.problem.count),),
            "The config.": (Constant("THREADS", self.config.threads),),
        }

    @property
    def context(self) -> Context:
        return Context(says=["  y = clamp(a - b, -128, 127)"])

    def cost(self) -> float:
        return 1.0 / self.config.threads


def plan(problem: Subtract, config: SubtractConfig, target: Target) -> SubtractPlan:
    check_choices(config, CHOICES)
    return SubtractPlan(problem, config, target, ceil_div(problem.count, config.threads))


FAMILY = Family(
    ops=("subtract",),
    config=SubtractConfig,
    choices=CHOICES,
    plan=plan,
    cost=SubtractPlan.cost,
    predicts_time=False,
)
