"""The `concat` family: concatenates the rows of several tensors, at the speed of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.parameter import ENTRIES
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import FEW_ELEMENTS, SAYS_OF_CONFIG, constants_of, order
from qconv.generator.plan import (
    Config,
    Constant,
    Context,
    Field,
    Launch,
    Roles,
    WaitingPlan,
    at_most,
    ceil_div,
    check_choices,
)
from qconv.targets.target import Target
from qconv.tensor_ops import Concat
from qconv.tensor_ops.concat import Slice


@dataclass(frozen=True)
class ConcatConfig(Config):
    family: ClassVar[str] = "concat"
    threads: int
    vector: int  # neighbouring elements per store
    load: int  # neighbouring elements per load; a thread joins several loads to a vector
    unroll: int  # vectors that a thread has in flight


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256, 512),
    "vector": (1, 2, 4, 8, 16),
    "load": (1, 2, 4, 8, 16),
    "unroll": (1, 2, 4),
}
SAYS = SAYS_OF_CONFIG | {"vector": "neighbouring elements per store", "load": "neighbouring elements per load"}
# Cost, in units of `order`, of each further load of a vector. An element less per store costs more, so that rows that
# are not aligned are stored in vectors that are as wide as others.
FURTHER_LOAD = 1


@dataclass(frozen=True)
class ConcatRoles(Roles):
    translation: str


@dataclass(frozen=True, kw_only=True)
class ConcatContext(Context):
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class ConcatPlan(WaitingPlan):
    page: ClassVar[str] = "families/tensor_ops/concat.j2"

    problem: Concat
    config: ConcatConfig
    blocks: int
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("concat", (self.blocks, 1, 1), self.config.threads, self.smem_bytes),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        names = [tensor.name for tensor in self.problem.inputs if tensor.name != "tables"]
        tables = [Field("tables", "const X*", "tables", "output for each byte, table by table")]
        return (
            *(Field(name, "const X*", name, "a tensor") for name in names),
            *(tables if self.problem.tables else ()),
            Field("y", "X*", "y", "output"),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        sources = {tensor.name: self.config.load for tensor in self.problem.inputs}
        return sources | dict.fromkeys((*self.problem.packed, "y"), self.config.vector)

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": self.problem.x_type}

    @property
    def roles(self) -> ConcatRoles:
        name = "looked_up" if self.problem.tables else "copied"
        return ConcatRoles(translation=f"families/tensor_ops/{name}.j2")

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        found = {"The problem.": self._problem_constants(), "The config.": constants_of(self.config, SAYS)}
        follows = Constant("ROWS", self.config.unroll, "rows of vectors per block")
        return found | {"Derived values.": (follows, Constant("SMEM_BYTES", self.smem_bytes))}

    def _problem_constants(self) -> tuple[Constant, ...]:
        output = (
            Constant("ELEMENTS", self.problem.rows * self.problem.width, "elements of the output"),
            Constant("WIDTH", self.problem.width, "elements per row"),
        )
        tables = Constant("TABLES", sum(self.problem.tables)), Constant("ENTRIES", ENTRIES, "entries per table")
        return (*output, *tables) if self.problem.tables else output

    @property
    def context(self) -> ConcatContext:
        return ConcatContext(says=["  y = the slices of each row, one behind the other"], slices=self.problem.slices)

    def cost(self) -> float:
        further = self.config.vector // self.config.load - 1
        return FURTHER_LOAD * further + order(self.config.threads, self.config.vector, self.config.unroll, self.blocks)


def plan(problem: Concat, config: ConcatConfig, target: Target) -> ConcatPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    if problem.widest_store % config.vector:
        raise Infeasible(f"vector={config.vector}: every width is a multiple of {problem.widest_store}")
    if problem.widest % config.load:
        raise Infeasible(f"load={config.load}: every width, stride and offset is a multiple of {problem.widest}")
    if config.vector % config.load:
        raise Infeasible(f"load={config.load} must divide vector={config.vector}")
    elements, tile = problem.rows * problem.width, config.threads * config.vector * config.unroll
    at_most(tile, max(2 * elements, FEW_ELEMENTS), f"elements of a tile (the problem has {elements})")
    return ConcatPlan(problem, config, target, ceil_div(elements, tile), ENTRIES * sum(problem.tables))


FAMILY = Family(
    ops=("concat",),
    config=ConcatConfig,
    choices=CHOICES,
    plan=plan,
    cost=ConcatPlan.cost,
    predicts_time=False,
)
