"""The `nms` family: non-maximum suppression, one class of an image per block, then one block that puts the boxes that
are kept one behind the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import Config, Constant, Context, Field, Launch, Plan, at_most, ceil_div, check_choices
from qconv.targets.target import Target
from qconv.tensor_ops import NonMaxSuppression

WORD_BITS = 32


@dataclass(frozen=True)
class NmsConfig(Config):
    family: ClassVar[str] = "nms"
    threads: int


CHOICES: dict[str, tuple[int, ...]] = {"threads": (64, 128, 256)}


@dataclass(frozen=True)
class NmsPlan(Plan):
    """The plan of blocks whose threads take every THREADS-th box, and of the block that packs the result."""

    page: ClassVar[str] = "families/tensor_ops/nms.j2"

    problem: NonMaxSuppression
    config: NmsConfig
    steps: int  # boxes of a thread
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        threads, problem = self.config.threads, self.problem
        return (
            Launch("suppress", (problem.images * problem.classes, 1, 1), threads, self.smem_bytes),
            Launch("pack", (1, 1, 1), threads, 4 * threads),
        )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("boxes", "const float*", "boxes", "four numbers per box"),
            Field("scores", "const float*", "scores", "for each class, one per box"),
            Field("thresholds", "const float*", "thresholds", "of the intersection over the union, and of the score"),
            Field("y", "Output*", "y", "the number of boxes that are kept, then image, class and box of each"),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"boxes": 4, "scores": 4, "thresholds": 4, "y": 8}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"Output": self.problem.outputs[0].dtype}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        problem = self.problem
        return {
            "The problem.": (
                Constant("CLASSES", problem.classes),
                Constant("BOXES", problem.boxes, "boxes per image"),
                Constant("MOST", problem.most, "boxes that an image keeps of a class"),
                Constant("CENTER", problem.center, "a box is its center and its size, not two corners"),
            ),
            "The config.": constants_of(self.config),
            "Derived values.": (
                Constant("WARP_SIZE", self.target.warp_size, may_be_unused=True),
                Constant("ROWS", problem.rows, "boxes that may be kept"),
                Constant("STEPS", self.steps, "boxes per thread"),
                Constant("WORDS", ceil_div(self.steps, WORD_BITS), "words with a bit for each of them"),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @property
    def context(self) -> Context:
        return Context(
            says=[
                "  y[0] = the number of rows that follow; each other row = an image, a class, a box that is kept:",
                "  by falling scores, unless a box kept before has more in common with it than the threshold",
            ],
        )

    def cost(self) -> float:
        """Count what a block does for each box that it keeps: its threads' boxes, then comparisons by twos."""
        return self.steps + 2 * (self.config.threads.bit_length() - 1)


def plan(problem: NonMaxSuppression, config: NmsConfig, target: Target) -> NmsPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    steps = ceil_div(problem.boxes, config.threads)
    smem_bytes = config.threads * (4 * ceil_div(steps, WORD_BITS) + 8)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    return NmsPlan(problem, config, target, steps, smem_bytes)


FAMILY = Family(
    ops=("nms",),
    config=NmsConfig,
    choices=CHOICES,
    plan=plan,
    cost=NmsPlan.cost,
    predicts_time=False,
)
