"""The `argmax` family: the index of the largest element along an axis, each axis reduced by a team of threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.dtypes import RANGES
from qconv.errors import Infeasible
from qconv.generator.families import Family
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import Config, Constant, Context, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.targets.target import Target
from qconv.tensor_ops import ArgMax
from qconv.tensor_ops.argmax import INDEX_BITS

WARP, LINE_BYTES = 32, 128


@dataclass(frozen=True)
class ArgMaxConfig(Config):
    family: ClassVar[str] = "argmax"
    threads: int
    vector: int  # neighbouring elements per load
    team: int  # threads that share an axis
    unroll: int  # vectors that a thread has in flight


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (64, 128, 256),
    "vector": (1, 2, 4, 8, 16),
    "team": (1, 2, 4, 8, 32, 64, 256),
    "unroll": (1, 4),
}


@dataclass(frozen=True)
class ArgMaxPlan(WaitingPlan):
    """The plan of teams that each find one output, or `vector` outputs where neighbours belong to different axes."""

    page: ClassVar[str] = "families/tensor_ops/argmax.j2"

    problem: ArgMax
    config: ArgMaxConfig
    outputs: int  # outputs per team
    blocks: int
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("argmax", (self.blocks, 1, 1), self.config.threads, self.smem_bytes),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Field("x", "const X*", "x", "the tensor"),
            Field("y", "Output*", "y", "index of the largest element of each axis"),
        )

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {"x": self.config.vector, "y": 8}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return {"X": self.problem.x_type, "Output": self.problem.outputs[0].dtype}

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        problem, config = self.problem, self.config
        return {
            "The problem.": (
                Constant("OUTPUTS", problem.outer * problem.inner),
                Constant("LENGTH", problem.length, "elements of the axis"),
                Constant("INNER", problem.inner, "distance in elements between neighbours along the axis"),
                Constant("LAST", problem.last, "of equal elements, the last one wins"),
                Constant("LEAST", RANGES[problem.x_type][0], "smallest value of X"),
            ),
            "The config.": constants_of(config),
            "Derived values.": (
                Constant("INDEX_BITS", INDEX_BITS, "low bits of a key, below those of the element"),
                Constant("TEAMS", config.threads // config.team, "teams per block"),
                Constant("OUTPUTS_OF_TEAM", self.outputs),
                Constant("STEP", config.vector if problem.inner == 1 else 1, "elements of a vector along the axis"),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @property
    def context(self) -> Context:
        which = "last" if self.problem.last else "first"
        return Context(says=[f"  y = the {which} index i at which x[i] is the largest element"])

    def cost(self) -> float:
        """Rank the configs by an estimate of the cache lines that a warp's loads touch one after the other, and of the
        comparisons among the members of a team."""
        problem, config = self.problem, self.config
        step, team = (config.vector, config.team) if problem.inner == 1 else (1, WARP)
        waves = max(1.0, self.blocks * config.threads / (132 * 1024))
        loads = ceil_div(problem.length, config.team * step * config.unroll) * config.unroll
        span_bytes = WARP * config.vector if team >= WARP else WARP // team * problem.length
        return waves * (loads * ceil_div(span_bytes, LINE_BYTES) + 8) + config.team / 4 + (16 - config.vector) / 16


def plan(problem: ArgMax, config: ArgMaxConfig, target: Target) -> ArgMaxPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(config.team, config.threads, "threads of a team, in a block")
    neighbours, name = (problem.length, "length") if problem.inner == 1 else (problem.inner, "inner")
    if neighbours % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide {name}={neighbours}")
    step, outputs = (config.vector, 1) if problem.inner == 1 else (1, config.vector)
    vectors = problem.length // step
    at_most(config.team, vectors, f"threads of a team (the axis has {vectors} vectors)")
    smem_bytes = 4 * config.threads * outputs
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    teams = config.threads // config.team
    blocks = ceil_div(problem.outer * problem.inner, teams * outputs)
    return ArgMaxPlan(problem, config, target, outputs, blocks, smem_bytes)


FAMILY = Family(
    ops=("argmax",),
    config=ArgMaxConfig,
    choices=CHOICES,
    plan=plan,
    cost=ArgMaxPlan.cost,
    predicts_time=False,
)
