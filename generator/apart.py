"""The `apart` family: two convolutions, each by a kernel of its own, what lies between them in device memory. Nothing
is searched here: its two configs are the winners of the two problems, and it competes with `fused` for the pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from qconv.fused import FusedConv2d
from qconv.generator.plan import Config, Plan
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


def plan(
    problem: FusedConv2d, config: Apart, target: Target, plan_one: Callable[[Problem, Config, Target], Plan]
) -> Plan:
    first, second = plan_one(problem.first, config.first, target), plan_one(problem.second, config.second, target)
    others = {name: bytes_ for name, bytes_ in second.alignment.items() if name not in ("x", "w")}
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="",
        constants={},
        launches=first.launches + second.launches,
        fields=(),
        alignment={"x": first.alignment["x"], "w1": first.alignment["w"], "w2": second.alignment["w"], **others},
        aliases={},
        parts=(first, second),
    )


def cost(plan: Plan, cost_one: Callable[[Plan], float]) -> float:
    return sum(cost_one(part) for part in plan.parts)
