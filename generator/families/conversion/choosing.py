"""The `choosing` family: finds the extremes of an array, chooses scales and zero points from them, and for `dynamic`
quantizes the array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.conversion import Choose, Dynamic
from qconv.conversion.choice import choice_real
from qconv.conversion.steps import divides_by_reciprocal
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.conversion import ConversionPlan, argument_fields, dimensions, element_bytes
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.targets.target import Target

MOST_BYTES = 256  # bytes of x that a thread has in flight
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True)
class Choosing(Config):
    family: ClassVar[str] = "choosing"
    threads: int
    team: int  # threads that reduce one slice
    vector: int  # neighbouring elements per load
    unroll: int  # vectors that a thread has in flight
    slices: int  # slices per channel; more than one takes two launches


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256, 512, 1024),
    "team": (32, 128, 256, 512, 1024),
    "vector": (1, 4, 8, 16),
    "unroll": (1, 2, 4),
    "slices": (1, 4, 16, 64, 256, 1024, 4096),
}


@dataclass(frozen=True)
class ChoosingPlan(ConversionPlan):
    page: ClassVar[str] = "families/conversion/choose.j2"

    problem: Choose
    config: Choosing
    count: int  # elements per channel
    per_slice: int  # elements per slice; the last may have fewer
    in_registers: bool  # a thread converts the elements that it has reduced, without loading them again
    blocks: int
    smem_bytes: int

    @property
    def ctype(self) -> str:
        """Type in which the extremes are found."""
        return choice_real(self.problem).ctype

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        op, grid = self.problem.op, (self.blocks, 1, 1)
        if self.config.slices == 1:
            return (self._launch(op, grid),)
        if isinstance(self.problem, Dynamic):
            return (self._launch(f"{op}_look", grid), self._launch("dynamic_convert", grid))
        return (self._launch(f"{op}_look", grid), self._launch("choose_finish", (self.problem.channels, 1, 1)))

    def _launch(self, kernel: str, grid: tuple[int, int, int]) -> Launch:
        return Launch(kernel, grid, self.config.threads, self.smem_bytes)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if self.config.slices == 1:
            return argument_fields(self.problem)
        words = 2 * self.problem.channels * self.config.slices * _real_bytes(self.problem) // 4
        says = "minimum and maximum of each slice"
        return argument_fields(self.problem, (Field("partials", f"{self.ctype}*", "workspace", says, None, words),))

    @cached_property
    def alignment(self) -> dict[str, int]:
        sizes = element_bytes(self.problem)
        in_vectors = ("x", "y") if isinstance(self.problem, Dynamic) else ("x",)
        return sizes | {name: min(16, self.config.vector * sizes[name]) for name in in_vectors}

    @property
    def _conversion_constants(self) -> tuple[Constant, ...]:
        """Constants of the conversion with the scale that was chosen."""
        if not isinstance(self.problem, Dynamic):
            return ()
        shared = Constant("SHARED_SCALE", True, "the elements of a vector have one scale")
        kept = Constant("IN_REGISTERS", self.in_registers, "a thread converts the elements that it kept in registers")
        return (*(shared,) * divides_by_reciprocal(self.problem.quantize), kept)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config = self.config
        return {
            "The problem.": (*dimensions(self.problem), Constant("COUNT", self.count, "elements per channel")),
            "The config.": (
                Constant("THREADS", config.threads),
                Constant("TEAM", config.team, "threads that reduce one slice"),
                Constant("VECTOR", config.vector, "neighbouring elements per load"),
                Constant("UNROLL", config.unroll, "vectors that a thread has in flight"),
                Constant("SLICES", config.slices, "slices per channel"),
            ),
            "Derived values.": (
                Constant("TEAMS", config.threads // config.team, "teams per block"),
                *self._conversion_constants,
                Constant("SLICE", self.per_slice, "elements per slice; the last may have fewer"),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    def cost(self) -> float:
        """Rank the configs. The model: a GPU is 132 multiprocessors that each want 1024 threads with 64 bytes in
        flight; a second launch costs as much as some megabytes."""
        config, x_bytes = self.config, ELEMENT_TYPES[self.problem.x_type].bytes
        per_team = self.count / config.slices / (config.team * config.vector)
        full = self.problem.channels * config.slices * config.team / (132 * 1024)
        in_flight = min(64, config.vector * config.unroll * x_bytes)
        loads = per_team * config.vector / min(1.0, full) / in_flight * max(1.0, full)
        second = 500 * (config.slices > 1)
        return loads + (second + config.threads / 256 + abs(config.vector * x_bytes - 16) / 16)


def plan(problem: Choose, config: Choosing, target: Target) -> ChoosingPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(config.team, config.threads, "threads of a team (a block has no more)")
    count = problem.outer * problem.inner
    _check_vectors(problem, config, count)
    per_slice = _per_slice(config, count)
    step = config.team * config.vector * config.unroll
    in_registers = config.slices == 1 and per_slice <= step
    blocks = ceil_div(problem.channels * config.slices, config.threads // config.team)
    at_most(blocks, MOST_BLOCKS, "blocks along x")
    return ChoosingPlan(
        problem=problem,
        config=config,
        target=target,
        count=count,
        per_slice=per_slice,
        in_registers=in_registers,
        blocks=blocks,
        smem_bytes=2 * _real_bytes(problem) * config.threads,
    )


def _real_bytes(problem: Choose) -> int:
    return 8 if choice_real(problem).ctype == "double" else 4


def _check_vectors(problem: Choose, config: Choosing, count: int) -> None:
    """Check that vectors divide the rows of a channel, and that they are as wide as the rows allow."""
    if problem.channels != 1 and problem.inner % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide inner={problem.inner}, so that rows begin between")
    if config.vector == 1 and (problem.channels == 1 or problem.inner % 4 == 0) and count >= 4:
        raise Infeasible("vector=1 loads element by element; only rows that vectors do not divide need it")
    in_flight = config.vector * config.unroll * ELEMENT_TYPES[problem.x_type].bytes
    at_most(in_flight, MOST_BYTES, "bytes a thread has in flight")


def _per_slice(config: Choosing, count: int) -> int:
    """Return the elements per slice. Raises Infeasible where a channel has too few elements for the slices."""
    if config.slices > 1 and config.team < config.threads:
        raise Infeasible(f"slices={config.slices} with team={config.team}: a slice is looked at by a whole block")
    step = config.team * config.vector * config.unroll
    if step > 32 * 4:
        at_most(step * config.slices, 2 * count, f"elements that a channel's threads load at once (it has {count})")
    per_slice = ceil_div(count, config.slices * config.vector) * config.vector
    if (config.slices - 1) * per_slice >= count and config.slices > 1:
        raise Infeasible(f"slices={config.slices} of {per_slice} elements leave some empty: a channel has {count}")
    return per_slice


FAMILY = Family(
    ops=("choose", "dynamic"),
    config=Choosing,
    choices=CHOICES,
    plan=plan,
    cost=ChoosingPlan.cost,
    predicts_time=False,
)
