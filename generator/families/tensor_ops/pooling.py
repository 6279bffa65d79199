"""The `pooling` family: the largest element or the average of a window. A thread computes some channels of an output
pixel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.step import Step
from qconv.errors import Infeasible
from qconv.generator.cost_units import copied
from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import constants_of
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
from qconv.tensor_ops import AveragePool, MaxPool
from qconv.tensor_ops.pooling import OF_WINDOW, REAL, arguments

# Windows with more columns would be unrolled into very long kernels.
MOST_COLUMNS = 64
# Points of `order` that double the cost.
LATER = 128


@dataclass(frozen=True)
class Pooling(Config):
    family: ClassVar[str] = "pooling"
    threads: int
    vector: int  # neighbouring channels per load


CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256, 512), "vector": (1, 2, 4, 8, 16)}


@dataclass(frozen=True)
class PoolingRoles(Roles):
    window: str


@dataclass(frozen=True, kw_only=True)
class PoolingContext(Context):
    problem: MaxPool | AveragePool
    real: Step
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class PoolingPlan(WaitingPlan):
    page: ClassVar[str] = "families/tensor_ops/pool.j2"

    problem: MaxPool | AveragePool
    config: Pooling
    blocks: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch(self.problem.op, (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        values = arguments(self.problem) if isinstance(self.problem, AveragePool) else ()
        return (
            Field("x", "const X*", "x", "images, NHWC"),
            Field("y", "Output*", "y", "output"),
            *map(Field.of_value, values),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"x": self.config.vector, "y": self.config.vector}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": self.problem.x_type, "Output": self.problem.out}

    @property
    def roles(self) -> PoolingRoles:
        name = "average" if isinstance(self.problem, AveragePool) else "largest"
        return PoolingRoles(window=f"families/tensor_ops/{name}.j2")

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        p = self.problem
        counts = isinstance(p, AveragePool) and p.count_include_pad
        return {
            "The problem.": (
                *(Constant(name.upper(), getattr(p, name)) for name in ("h", "w", "c", "oh", "ow", "r", "s")),
                *(Constant(f"STRIDE_{axis}", step) for axis, step in zip("HW", p.stride, strict=True)),
                *(Constant(f"DILATION_{axis}", step) for axis, step in zip("HW", p.steps, strict=True)),
                Constant("PAD_TOP", p.pad[0]),
                Constant("PAD_LEFT", p.pad[1]),
                Constant("COUNT_PADDING", counts, "an average divides by all taps, padding included"),
            ),
            "The config.": constants_of(self.config),
            "Derived values.": (
                Constant("OUTPUTS", p.outputs_count),
                Constant("VECTORS", p.c // self.config.vector, "vectors per output pixel"),
            ),
        }

    @property
    def context(self) -> PoolingContext:
        average = isinstance(self.problem, AveragePool)
        return PoolingContext(
            says=[AVERAGE if average else "  y = the largest of the window"],
            problem=self.problem,
            real=REAL,
            steps=OF_WINDOW,
        )

    def cost(self) -> float:
        """Return the time of the bytes, scaled by a ranking of the configs from an H100 and an H200: eight channels per
        thread are fastest."""
        few = max(0.0, 264 / self.blocks - 1)
        order = 4 * abs(self.config.vector - 8) + abs(self.config.threads - 128) / 16 + min(few, 32.0)
        return copied(self.problem, self.target) * (1 + order / LATER)


AVERAGE = "  y = clamp(round_half_to_even(sum(x_scale * (x - x_zero)) / taps / y_scale + y_zero), low, high)"


def plan(problem: MaxPool | AveragePool, config: Pooling, target: Target) -> PoolingPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(problem.s, MOST_COLUMNS, "columns of a window")
    if problem.c % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide c={problem.c}")
    blocks = ceil_div(problem.outputs_count // config.vector, config.threads)
    return PoolingPlan(problem, config, target, blocks)


FAMILY = Family(
    ops=("max_pool", "average_pool"),
    config=Pooling,
    choices=CHOICES,
    plan=plan,
    cost=PoolingPlan.cost,
    predicts_time=False,
)
