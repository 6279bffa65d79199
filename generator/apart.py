"""The `apart` family: the first of two or three convolutions by a kernel of its own, what it gives in device memory.
Nothing is searched here: its two configs are the winners of the first and of the rest, which of three is a pair, and it
competes with one kernel for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from qconv.fused import Chain
from qconv.generator.plan import Config
from qconv.generator.plan import Untyped as Plan
from qconv.op import Problem
from qconv.target import Target


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
    return sum(cost_one(part) for part in plan.parts)
