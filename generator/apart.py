"""The `apart` family: the first of two or three convolutions by a kernel of its own, what it gives in device memory.
Nothing is searched here: its two configs are the winners of the first and of the rest, which of three is a pair, and it
competes with one kernel for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from qconv.fused import Chain
from qconv.generator.fused import LAUNCH, STREAMING
from qconv.generator.plan import Config, Plan
from qconv.generator.stage_cost import OF_ACTIVATION
from qconv.op import Problem
from qconv.problem import Conv2d
from qconv.target import Target

# What one convolution takes longer than its model says, which was fitted to rank configs of one family: on an H200, of
# the best of 163 chains, where the model of one kernel for all is right.
LONGER = 1.15


@dataclass(frozen=True)
class Apart(Config):
    family: ClassVar[str] = "apart"
    first: Config
    second: Config

    def as_dict(self) -> dict[str, Any]:
        return {"family": self.family, "first": self.first.as_dict(), "second": self.second.as_dict()}

    def __str__(self) -> str:
        return f"{self.family} ({self.first}) ({self.second})"


def plan(problem: Chain, config: Apart, target: Target, plan_one: Callable[[Problem, Config, Target], Plan]) -> Plan:
    first, second = plan_one(problem.first, config.first, target), plan_one(problem.rest, config.second, target)
    weights = dict(zip(problem.packed[1:], problem.rest.packed, strict=True))
    others = {name: second.alignment[name] for name in second.alignment if name not in ("x", *problem.rest.packed)}
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="",
        constants={},
        launches=first.launches + second.launches,
        fields=(),
        alignment={
            "x": first.alignment["x"],
            "w1": first.alignment["w"],
            **{ours: second.alignment[theirs] for ours, theirs in weights.items()},
            **others,
        },
        aliases={},
        parts=(first, second),
    )


def cost(plan: Plan, cost_one: Callable[[Plan], float]) -> float:
    return sum(_beside_fused(part, cost_one(part)) for part in plan.parts)


def _beside_fused(part: Plan, cost: float) -> float:
    """By the measure of one kernel for all: with what an activation issues, and no less than a launch and all bytes."""
    problem, target = part.problem, part.target
    if target.vendor == "cpu" or not isinstance(problem, Conv2d):
        return cost
    outputs = problem.pixels * problem.k / target.processors
    of_activation = outputs / 128 * OF_ACTIVATION.get(problem.quantization.activation, 0)
    of_bytes = LAUNCH + problem.io_bytes / target.processors / STREAMING
    return LONGER * max(cost + of_activation, of_bytes)
