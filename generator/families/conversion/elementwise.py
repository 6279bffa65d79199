"""The `elementwise` family: quantize, dequantize and requantize at the speed of a copy. Where the layout changes too
(NCHW to NHWC or back, with few channels), a thread has all channels of neighbouring pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.conversion import Dequantize, Quantize, Requantize
from qconv.conversion.steps import divides_by_reciprocal
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.conversion import ConversionPlan, argument_fields, dimensions, element_bytes
from qconv.generator.plan import Config, Constant, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.op import WIDEST, alignment
from qconv.targets.target import Target

MOST_BYTES = 256  # bytes of x that a thread has in flight


@dataclass(frozen=True)
class Elementwise(Config):
    family: ClassVar[str] = "elementwise"
    threads: int
    vector: int  # neighbouring elements per load (of each channel, where the layout changes)
    unroll: int  # vectors that a thread has in flight (of each channel, where the layout changes)


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (64, 128, 256, 512),
    "vector": (1, 4, 8, 16),
    "unroll": (1, 2, 4, 8),
}


@dataclass(frozen=True)
class ElementwisePlan(WaitingPlan, ConversionPlan):
    page: ClassVar[str] = "families/conversion/elementwise.j2"

    problem: Quantize | Dequantize | Requantize
    config: Elementwise
    blocks: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch(self.problem.op, (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return argument_fields(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        sizes = element_bytes(self.problem)
        return sizes | {name: min(16, self.config.vector * sizes[name]) for name in ("x", "y")}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, problem = self.config, self.problem
        return {
            "The problem.": (Constant("ELEMENTS", problem.elements), *dimensions(problem)),
            "The config.": (
                Constant("THREADS", config.threads),
                Constant("VECTOR", config.vector, "neighbouring elements per load"),
                Constant("UNROLL", config.unroll, "vectors that a thread has in flight"),
            ),
            "Derived values.": (
                Constant("ONE_SCALE", problem.granularity == "tensor", "the array has one scale"),
                Constant("SHARED_SCALE", _is_shared(problem, config.vector), "the elements of a vector have one scale"),
            ),
        }

    def cost(self) -> float:
        """Rank the configs: bytes in flight hide latency, but more than a few vectors per thread, or few blocks, do not
        help."""
        config = self.config
        x_bytes, y_bytes = ELEMENT_TYPES[self.problem.x_type].bytes, ELEMENT_TYPES[self.problem.out_type].bytes
        in_flight = config.vector * config.unroll * x_bytes
        narrow = config.vector * min(x_bytes, y_bytes)
        short = max(1.0, 264 / self.blocks)
        return abs(in_flight - 64) + 4 * max(0, 8 - narrow) + abs(config.threads - 256) / 16 + 20 * (short - 1)


@dataclass(frozen=True)
class TurnedPlan(WaitingPlan, ConversionPlan):
    """The plan of a conversion that changes the layout: the integers have their channels last, the reals do not. `word`
    is the number of elements per access where the channels are last: all of a thread's, if they fit."""

    page: ClassVar[str] = "families/conversion/channels_last.j2"

    problem: Quantize | Dequantize
    config: Elementwise
    blocks: int
    word: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch(self.problem.op, (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return argument_fields(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        sizes = element_bytes(self.problem)
        planes, last = _planes_and_last(self.problem)
        return sizes | {planes: min(WIDEST, self.config.vector * sizes[planes]), last: self.word * sizes[last]}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, problem = self.config, self.problem
        return {
            "The problem.": (
                Constant("PIXELS", problem.outer * problem.inner, "pixels of all images"),
                Constant("CHANNELS", problem.channels),
                Constant("INNER", problem.inner, "pixels per image"),
            ),
            "The config.": (
                Constant("THREADS", config.threads),
                Constant("VECTOR", config.vector, "neighbouring pixels per load"),
            ),
            "Derived values.": (
                Constant("ROWS", config.unroll, "rows of vectors of each channel, per block"),
                Constant("WORD", self.word, "elements per access to the array with its channels last"),
                # A division by a scale uses its inverse, computed once for all pixels of a thread.
                *([Constant("SHARED_SCALE", True, "the elements of a vector have one scale")] if self._divides else []),
            ),
        }

    @property
    def _divides(self) -> bool:
        problem = self.problem
        return isinstance(problem, Quantize) and problem.quotient != "reciprocal" and divides_by_reciprocal(problem)

    def cost(self) -> float:
        """Rank the configs as ElementwisePlan does. A thread may have more bytes in flight, because it prepares a scale
        per channel, and few blocks are worse than narrow loads."""
        config, sizes = self.config, element_bytes(self.problem)
        planes, last = _planes_and_last(self.problem)
        in_flight = self.problem.channels * config.vector * config.unroll * sizes[planes]
        narrow = min(config.vector * sizes[planes], self.word * sizes[last])
        short = max(1.0, 264 / self.blocks)
        return abs(in_flight - 96) / 2 + 4 * max(0, 8 - narrow) + abs(config.threads - 256) / 16 + 40 * (short - 1)


def plan(
    problem: Quantize | Dequantize | Requantize, config: Elementwise, target: Target
) -> ElementwisePlan | TurnedPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    if not isinstance(problem, Requantize) and problem.channels_last:
        return _turned(problem, config, target)
    x_bytes, y_bytes = ELEMENT_TYPES[problem.x_type].bytes, ELEMENT_TYPES[problem.out_type].bytes
    at_most(config.vector * config.unroll * max(x_bytes, y_bytes), MOST_BYTES, "bytes a thread has in flight")
    tile = config.threads * config.vector * config.unroll
    if config.vector > 1:
        at_most(tile, max(2 * problem.elements, 2 * 64 * 4), f"elements of a tile (the problem has {problem.elements})")
    if config.vector == 1 and problem.elements >= 2 * 64 * 4:
        raise Infeasible("vector=1 loads element by element; only arrays of fewer than 512 need it")
    return ElementwisePlan(problem, config, target, blocks=ceil_div(problem.elements, tile))


def _turned(problem: Quantize | Dequantize, config: Elementwise, target: Target) -> TurnedPlan:
    if problem.inner % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide the {problem.inner} pixels of an image")
    sizes, pixels = element_bytes(problem), problem.outer * problem.inner
    thread_bytes = problem.channels * config.vector * config.unroll * max(sizes["x"], sizes["y"])
    at_most(thread_bytes, MOST_BYTES, f"bytes a thread has in flight, of {problem.channels} channels")
    tile = config.threads * config.vector * config.unroll
    at_most(tile, max(2 * pixels, 64), f"pixels of a tile (the problem has {pixels})")
    last = sizes[_planes_and_last(problem)[1]]
    word = alignment(problem.channels * config.vector * last, WIDEST) // last
    return TurnedPlan(problem, config, target, blocks=ceil_div(pixels, tile), word=word)


def _planes_and_last(problem: Quantize | Dequantize) -> tuple[str, str]:
    """Return the name of the array with one plane per channel, and of the one with the channels last."""
    return ("x", "y") if isinstance(problem, Quantize) else ("y", "x")


def _is_shared(problem: Quantize | Dequantize | Requantize, vector: int) -> bool:
    if problem.block:
        return problem.inner == 1 and problem.block % vector == 0 and problem.channels % vector == 0
    return problem.channels == 1 or problem.inner % vector == 0


FAMILY = Family(
    ops=("quantize", "dequantize", "requantize"),
    config=Elementwise,
    choices=CHOICES,
    plan=plan,
    cost=lambda plan: plan.cost(),
    predicts_time=False,
)
