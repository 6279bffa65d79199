"""The op `distance`, the absolute difference of two int8 arrays, and its family: one element per thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from qconv.interface import (
    Array,
    Config,
    Constant,
    Context,
    Family,
    Field,
    Launch,
    Op,
    Option,
    Plan,
    Problem,
    Sample,
    Target,
    Tensor,
    ceil_div,
    check_choices,
    checked_size,
    read_integer,
    read_key,
)

INTERFACE = 1
CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256)}


@dataclass(frozen=True, eq=False)
class Distance(Problem):
    op: ClassVar[str] = "distance"
    count: int
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", checked_size("count", self.count, 1))
        self._name(f"distance:count={self.count}")

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("a", (self.count,), "int8"), Tensor("b", (self.count,), "int8"))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.count,), "uint8"),)

    @property
    def io_bytes(self) -> int:
        return 3 * self.count

    @property
    def extents(self) -> dict[str, int]:
        return {"count": self.count}

    @property
    def kinds(self) -> tuple[object, ...]:
        return ()


def read(key: str) -> Distance:
    _, given = read_key(key, ())
    if set(given) != {"count"}:
        raise ValueError(f"the key {key!r} must give count, and nothing else")
    return Distance(read_integer("count", given["count"]))


def draw(problem: Distance, seed: int, fixed: dict[str, int]) -> Sample:
    a, b = np.random.default_rng(seed).integers(-128, 128, (2, problem.count), dtype=np.int8)
    return Sample((a, b))


def compute(problem: Distance, drawn: Sample) -> tuple[Array, ...]:
    a, b = (array.astype(np.int32) for array in drawn.arrays)
    return (np.abs(a - b).astype(np.uint8),)


def ask(given: dict[str, Any]) -> Distance:
    return Distance(given["count"])


@dataclass(frozen=True)
class DistanceConfig(Config):
    family: ClassVar[str] = "distance"
    threads: int


@dataclass(frozen=True)
class DistancePlan(Plan):
    page: ClassVar[str] = "qconv_outside:pages/distance.j2"

    problem: Distance
    config: DistanceConfig
    blocks: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("distance", (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("a", "const X*", "a", "one array"),
            Field("b", "const X*", "b", "the other"),
            Field("y", "Y*", "y", "their distance"),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"a": 1, "b": 1, "y": 1}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": "int8", "Y": "uint8"}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": (Constant("COUNT", self.problem.count),),
            "The config.": (Constant("THREADS", self.config.threads),),
        }

    @property
    def context(self) -> Context:
        return Context(says=["  y = |a - b|"])

    def cost(self) -> float:
        return 1.0 / self.config.threads


def plan(problem: Distance, config: DistanceConfig, target: Target) -> DistancePlan:
    check_choices(config, CHOICES)
    return DistancePlan(problem, config, target, ceil_div(problem.count, config.threads))


OP = Op(
    name="distance",
    says="The absolute difference of two arrays.",
    problems=(Distance,),
    read=read,
    ask=ask,
    options=(Option("count", "distance: elements of each array.", "integer", required=True),),
    draw=draw,
    compute=compute,
)
FAMILY = Family(
    ops=("distance",),
    config=DistanceConfig,
    choices=CHOICES,
    plan=plan,
    cost=DistancePlan.cost,
    predicts_time=False,
)
