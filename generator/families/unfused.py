"""The `unfused` family: a chain as separate kernels with the intermediate tensor in device memory. The first
convolution is one plan; the rest (a convolution, a pair or a pool) is the other. It has no search space: its two
configs are the winners of the two parts, and it competes with the fused kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Context, Field, Launch, Plan
from qconv.op import Problem
from qconv.problem.pooled import InTurn
from qconv.targets.target import Target


@dataclass(frozen=True)
class Unfused(Config):
    family: ClassVar[str] = "unfused"
    first: Config
    second: Config

    def as_dict(self) -> dict[str, object]:
        return {"family": self.family, "first": self.first.as_dict(), "second": self.second.as_dict()}

    def __str__(self) -> str:
        return f"{self.family} ({self.first}) ({self.second})"


@dataclass(frozen=True)
class UnfusedPlan(Plan):
    """A plan of two parts. It has no page and no arguments of its own."""

    problem: InTurn
    config: Unfused
    first: Plan
    second: Plan

    @property
    def parts(self) -> tuple[Plan, ...]:
        return (self.first, self.second)

    @property
    def overlaps(self) -> bool:
        """True where a part does. Each kernel waits by itself for the one before it, the second for the output of the
        first."""
        return any(part.overlaps for part in self.parts)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return self.first.launches + self.second.launches

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return ()

    @property
    def aliases(self) -> dict[str, str]:
        return {}

    @property
    def context(self) -> Context:
        return Context(says=[])

    @cached_property
    def alignment(self) -> dict[str, int]:
        first, second, rest = self.first.alignment, self.second.alignment, self.problem.rest
        weights = dict(zip(self.problem.packed[1:], rest.packed, strict=True))
        others = {name: second[name] for name in second if name not in ("x", *rest.packed)}
        ours = {name: second[theirs] for name, theirs in weights.items()}
        return {"x": first["x"], self.problem.packed[0]: first["w"], **ours, **others}


PlanOne = Callable[[Problem, Config, Target], Plan]


def plan(problem: InTurn, config: Unfused, target: Target, plan_one: PlanOne) -> UnfusedPlan:
    first, second = plan_one(problem.first, config.first, target), plan_one(problem.rest, config.second, target)
    return UnfusedPlan(problem, config, target, first, second)


def family(plan_one: PlanOne, cost_one: Callable[[Plan], float]) -> Family:
    """Make the family. `plan_one` and `cost_one` serve configs of any family, which only the registry can do."""
    return Family(
        ops=("conv2d_conv2d", "conv2d_conv2d_conv2d", "conv2d_pool"),
        config=Unfused,
        choices={},
        plan=partial(plan, plan_one=plan_one),
        cost=lambda plan: sum(cost_one(part) for part in plan.parts),
        promising=lambda *_: iter(()),
    )
