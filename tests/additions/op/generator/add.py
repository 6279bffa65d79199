"""The `add` family: one element a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from qconv.add import Add
from qconv.generator.plan import Config, Constant, Field, Launch, Plan, ceil_div, check_choices
from qconv.target import Target

CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256)}


@dataclass(frozen=True)
class AddConfig(Config):
    family: ClassVar[str] = "add"
    threads: int


def plan(problem: Add, config: AddConfig, target: Target) -> Plan:
    check_choices(config, CHOICES)
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="add.j2",
        constants={
            "The problem.": (Constant("COUNT", problem.count),),
            "The config.": (Constant("THREADS", config.threads),),
        },
        launches=(Launch("add", (ceil_div(problem.count, config.threads), 1, 1), config.threads, 0),),
        fields=(
            Field("a", "const X*", "a", "one array"),
            Field("b", "const X*", "b", "the other"),
            Field("y", "X*", "y", "their sum"),
        ),
        alignment={"a": 1, "b": 1, "y": 1},
        aliases={"X": "int8"},
    )


def context(problem: Add) -> dict[str, Any]:
    return {"problem": problem, "says": ["  y = clamp(a + b, -128, 127)"], "wants": set()}


def cost(plan: Plan) -> float:
    return 1.0 / plan.main.threads
