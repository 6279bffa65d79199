"""The `table` family: any function of a quantized tensor as a table look-up, at the speed of a copy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.parameter import ENTRIES
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import blocks_of, constants_of, order
from qconv.generator.plan import Config, Constant, Context, Field, Launch, WaitingPlan, at_most, check_choices
from qconv.targets.target import Target
from qconv.tensor_ops import Table

WORDS = ENTRIES // 4
# Cost, in units of `order`, of writing one word of a table per thread. Bank conflicts cost less than more copies of the
# table: on an H200, one copy was the fastest for every table measured.
FILL = 8.0


@dataclass(frozen=True)
class TableConfig(Config):
    family: ClassVar[str] = "table"
    threads: int
    vector: int  # neighbouring elements per load
    unroll: int  # vectors that a thread has in flight
    rounds: int  # iterations over `unroll` vectors
    copies: int  # copies of the table in shared memory


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256, 512),
    "vector": (1, 4, 8, 16),
    "unroll": (1, 2, 4),
    "rounds": (1, 4),
    "copies": (1, 8, 32),
}


@dataclass(frozen=True)
class TablePlan(WaitingPlan):
    page: ClassVar[str] = "families/tensor_ops/table.j2"

    problem: Table
    config: TableConfig
    blocks: int
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("table", (self.blocks, 1, 1), self.config.threads, self.smem_bytes),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("x", "const X*", "x", "input"),
            Field("table", "const Output*", "table", "output for each byte"),
            Field("y", "Output*", "y", "output; may overwrite x"),
        )

    @property
    def in_place(self) -> tuple[str, ...]:
        return ("x",)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"x": self.config.vector, "table": 4, "y": self.config.vector}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": self.problem.x_type, "Output": self.problem.out_type}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": (
                Constant("ELEMENTS", self.problem.elements),
                Constant("WORDS", WORDS, "words of the table"),
            ),
            "The config.": constants_of(self.config),
            "Derived values.": (
                Constant("ROWS", self.config.unroll * self.config.rounds, "rows of vectors per block"),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @property
    def context(self) -> Context:
        return Context(says=["  y = table[the byte of x]"])

    def cost(self) -> float:
        config = self.config
        filled = FILL * WORDS * config.copies / config.threads
        return filled + order(config.threads, config.vector, config.unroll * config.rounds, self.blocks)


def plan(problem: Table, config: TableConfig, target: Target) -> TablePlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    if config.copies > target.warp_size:
        raise Infeasible(f"copies={config.copies}: only the {target.warp_size} lanes of a warp read at the same time")
    blocks = blocks_of(problem.elements, config.threads, config.vector, config.unroll * config.rounds)
    return TablePlan(problem, config, target, blocks, smem_bytes=4 * WORDS * config.copies)


FAMILY = Family(
    ops=("table",),
    config=TableConfig,
    choices=CHOICES,
    plan=plan,
    cost=TablePlan.cost,
    predicts_time=False,
)
