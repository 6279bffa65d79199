"""The `binary` family: sums and products of two quantized tensors, at the speed of a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.step import Step
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.plan import Config, Constant, Context, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.targets.target import Target
from qconv.tensor_ops import Binary
from qconv.tensor_ops.binary import says, steps

FEW_ELEMENTS = 512
# Cost, in units of `order`, of addressing each element of b by itself. It exceeds that of narrower vectors.
GATHERED = 64


@dataclass(frozen=True)
class BinaryConfig(Config):
    family: ClassVar[str] = "binary"
    threads: int
    vector: int  # neighbouring elements per load
    unroll: int  # vectors of each tensor that a thread has in flight


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (64, 128, 256, 512),
    "vector": (1, 4, 8, 16),
    "unroll": (1, 2, 4),
}


@dataclass(frozen=True, kw_only=True)
class BinaryContext(Context):
    problem: Binary
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class BinaryPlan(WaitingPlan):
    page: ClassVar[str] = "families/tensor_ops/binary.j2"

    problem: Binary
    config: BinaryConfig
    blocks: int
    b_in_vectors: bool  # a vector of a meets a vector of b
    b_is_shared: bool  # a vector of a meets one element of b

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch(self.problem.op, (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        values = [argument for step in steps(self.problem) for argument in step.arguments]
        return (
            Field("a", "const A*", "a", "first tensor"),
            Field("b", "const B*", "b", "second tensor"),
            Field("y", "Output*", "y", "output; may overwrite a"),
            *map(Field.of_value, values),
        )

    @property
    def in_place(self) -> tuple[str, ...]:
        return ("a",)

    @property
    def may_alias(self) -> tuple[str, ...]:
        """The tensors that the output may overwrite: b only where no element of it is read again after the first
        output."""
        return ("a", "b") if self.problem.repeat == 1 else self.in_place

    @cached_property
    def alignment(self) -> dict[str, int]:
        vector = self.config.vector
        return {"a": vector, "b": vector if self.b_in_vectors else 1, "y": vector}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"A": self.problem.a_type, "B": self.problem.b_type, "Output": self.problem.out_type}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        problem = self.problem
        return {
            "The problem.": (
                Constant("ELEMENTS", problem.elements),
                Constant("REPEAT", problem.repeat, "rows that meet the same elements of b"),
                Constant("INNER", problem.inner, "elements per row"),
            ),
            "The config.": constants_of(self.config),
            "Derived values.": (
                Constant("ROWS", self.config.unroll, "rows of vectors per block"),
                Constant("B_IN_VECTORS", self.b_in_vectors, "a vector of a meets a vector of b"),
                Constant("B_IS_SHARED", self.b_is_shared, "a vector of a meets one element of b"),
            ),
        }

    @property
    def context(self) -> BinaryContext:
        chosen = steps(self.problem)
        return BinaryContext(
            says=[says(self.problem)],
            problem=self.problem,
            steps=chosen,
        )

    def cost(self) -> float:
        gathered = 0 if self.b_in_vectors or self.b_is_shared else GATHERED
        return gathered + order(self.config.threads, self.config.vector, self.config.unroll, self.blocks)


SAYS_OF_CONFIG = {
    "vector": "neighbouring elements per load",
    "unroll": "vectors that a thread has in flight",
    "rounds": "iterations over UNROLL vectors",
    "copies": "copies of the table in shared memory",
    "team": "threads that share an axis",
}


def constants_of(config: Config, says: Mapping[str, str] = SAYS_OF_CONFIG) -> tuple[Constant, ...]:
    """Return the fields of a config as constants, with their names in capitals."""
    return tuple(
        Constant(entry.name.upper(), getattr(config, entry.name), says.get(entry.name, "")) for entry in fields(config)
    )


def order(threads: int, vector: int, in_flight: int, blocks: int) -> float:
    """Rank a config of a kernel that reads and writes bytes. On an H200 the fastest have wide loads, one in flight for
    each of many threads, and many small blocks."""
    short = max(1.0, 264 / blocks)
    return 4 * (16 - vector) + 8 * (in_flight - 1) + abs(threads - 128) / 16 + 20 * (short - 1)


def plan(problem: Binary, config: BinaryConfig, target: Target) -> BinaryPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    blocks = blocks_of(problem.elements, config.threads, config.vector, config.unroll)
    in_rows = problem.inner % config.vector == 0 or problem.repeat == 1
    shared = problem.inner == 1 and (problem.outer == 1 or problem.repeat % config.vector == 0)
    return BinaryPlan(problem, config, target, blocks, in_rows, shared and not in_rows)


def blocks_of(elements: int, threads: int, vector: int, unroll: int) -> int:
    """Return the number of tiles of threads * vector * unroll elements. Raises Infeasible where a config wastes most of
    them."""
    tile = threads * vector * unroll
    if vector > 1:
        at_most(tile, max(2 * elements, FEW_ELEMENTS), f"elements of a tile (the problem has {elements})")
    elif elements >= FEW_ELEMENTS:
        raise Infeasible(f"vector=1 loads byte by byte; only tensors of fewer than {FEW_ELEMENTS} need it")
    return ceil_div(elements, tile)


FAMILY = Family(
    ops=("add", "mul"),
    config=BinaryConfig,
    choices=CHOICES,
    plan=plan,
    cost=BinaryPlan.cost,
    predicts_time=False,
)
