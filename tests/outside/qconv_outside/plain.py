"""The `plain` family: one thread for each output. It serves layers in NHWC without groups, without a zero point of the
weights and without a residual."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.interface import (
    Config,
    Constant,
    Conv2d,
    ConvolutionPlan,
    Family,
    Field,
    Infeasible,
    Launch,
    Target,
    argument_fields,
    at_most,
    ceil_div,
    check_choices,
    fold_constants,
    fold_launches,
    problem_constants,
)

INTERFACE = 1
CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256)}


@dataclass(frozen=True)
class Plain(Config):
    family: ClassVar[str] = "plain"
    threads: int


@dataclass(frozen=True)
class PlainPlan(ConvolutionPlan):
    page: ClassVar[str] = "qconv_outside:pages/plain.j2"

    problem: Conv2d
    config: Plain
    blocks: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        main = Launch("conv2d_plain", (self.blocks, 1, 1), self.config.threads, 0)
        return (*fold_launches(self.problem), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return argument_fields(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        types = self.problem.quantization.types
        return {"x": types.x.bytes, "w": types.w.bytes, "y": types.y.bytes}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": (Constant("THREADS", self.config.threads),),
            "What follows.": fold_constants(self.problem),
        }

    def cost(self) -> float:
        """Clocks: a product and its two loads at a time, which nothing hides."""
        return 20.0 * self.problem.reduction * ceil_div(self.blocks, self.target.processors)


def why_none(problem: Conv2d, target: Target) -> str | None:
    q = problem.quantization
    if problem.layout != "nhwc" or problem.groups > 1:
        return "it indexes NHWC without groups"
    if q.w_zero_point or q.residual != "none" or q.types.x.bytes > 1:
        return "it multiplies bytes, without zero points of weights and without a residual"
    return None


def plan(problem: Conv2d, config: Plain, target: Target) -> PlainPlan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(f"plain: {reason}")
    outputs = problem.pixels * problem.k
    at_most(outputs, 2**31 - config.threads, "outputs")
    return PlainPlan(problem, config, target, ceil_div(outputs, config.threads))


FAMILY = Family(ops=("conv2d",), config=Plain, choices=CHOICES, plan=plan, cost=PlainPlan.cost, why_none=why_none)
