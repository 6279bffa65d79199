"""The `global_pooling` family: the average of each channel of an image, with the pixels divided among a block's
threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.arithmetic.step import Step
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import Config, Constant, Context, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.targets.target import Target
from qconv.tensor_ops import GlobalAveragePool
from qconv.tensor_ops.pooling import OF_IMAGE, arguments

SAYS = "  y = clamp(round_half_to_even((sum(x) + offset) * scale), lowest, highest) + zero"


# Fitted to 1,005 measured configs of 24 problems on an H200 (standard deviation of the error 13 %). A step is one
# dependent load or, unrolled, several independent ones; remaining pixels take a step each.
LAUNCH_US, STEP_US, ADD_US, SUM_US, BYTE_US = 1.46, 0.36, 3.2e-4, 9.2e-4, 9.7e-8
WRITTEN = 5  # additions that writing a sum to shared memory costs
SMS, RESIDENT_WARPS, SECTOR = 132, 48, 32


@dataclass(frozen=True)
class GlobalPooling(Config):
    family: ClassVar[str] = "global_pooling"
    threads: int
    vector: int  # neighbouring channels per load
    lanes: int  # vectors of channels per block
    unroll: int  # pixels that a thread has in flight


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (64, 128, 256, 512),
    "vector": (1, 2, 4, 8, 16),
    "lanes": (1, 2, 4, 8, 16, 32),
    "unroll": (1, 4),
}


@dataclass(frozen=True, kw_only=True)
class GlobalPoolingContext(Context):
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class GlobalPoolingPlan(WaitingPlan):
    page: ClassVar[str] = "families/tensor_ops/global_average.j2"

    problem: GlobalAveragePool
    config: GlobalPooling
    blocks_of_image: int
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        grid = (self.problem.n * self.blocks_of_image, 1, 1)
        return (Launch("global_average_pool", grid, self.config.threads, self.smem_bytes),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("x", "const X*", "x", "images, NHWC"),
            Field("y", "Output*", "y", "average of each image and channel"),
            *map(Field.of_value, arguments(self.problem)),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"x": self.config.vector, "y": 1}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": self.problem.x_type, "Output": self.problem.out_type}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": (Constant("PIXELS", self.problem.pixels), Constant("C", self.problem.c)),
            "The config.": constants_of(self.config),
            "Derived values.": (
                Constant("GROUPS", self.config.threads // self.config.lanes, "threads that share the pixels"),
                Constant("BLOCKS_OF_IMAGE", self.blocks_of_image),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @property
    def context(self) -> GlobalPoolingContext:
        return GlobalPoolingContext(says=[SAYS], steps=OF_IMAGE)

    def cost(self) -> float:
        """Estimate the time on an H200 in microseconds."""
        problem, config = self.problem, self.config
        groups, row_bytes = config.threads // config.lanes, config.vector * config.lanes
        warps = max(1.0, problem.n * self.blocks_of_image * config.threads / 32 / SMS)
        crowded = max(1.0, warps / RESIDENT_WARPS)
        most = ceil_div(problem.pixels, groups)
        steps = max(sum(divmod(pixels, config.unroll)) for pixels in (most, problem.pixels // groups))
        waiting = STEP_US * steps * crowded
        adding = ADD_US * warps * config.vector * (most + WRITTEN)
        summing = SUM_US * groups * ceil_div(min(row_bytes, problem.c), config.threads) * crowded
        moving = BYTE_US * problem.n * problem.pixels * problem.c * max(1.0, SECTOR / row_bytes)
        return LAUNCH_US + waiting + adding + summing + moving


def plan(problem: GlobalAveragePool, config: GlobalPooling, target: Target) -> GlobalPoolingPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    if problem.c % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide c={problem.c}")
    row = config.vector * config.lanes
    if config.lanes > 1:
        at_most(row, 2 * problem.c, f"channels of a block (the problem has {problem.c})")
    smem_bytes = 4 * config.threads * config.vector
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    return GlobalPoolingPlan(problem, config, target, ceil_div(problem.c, row), smem_bytes)


FAMILY = Family(
    ops=("global_average_pool",),
    config=GlobalPooling,
    choices=CHOICES,
    plan=plan,
    cost=GlobalPoolingPlan.cost,
    predicts_time=False,
)
