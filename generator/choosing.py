"""The `choosing` family: scales and zero points from the extremes of an array, and the array converted by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.conversion import Choose, Dynamic
from qconv.conversion.choice import choice_real
from qconv.dtypes import DATA_TYPES
from qconv.errors import Infeasible
from qconv.generator.convert import aliases, argument_fields, dimensions
from qconv.generator.plan import Config, Constant, Field, Launch, at_most, ceil_div, check_choices
from qconv.generator.plan import Untyped as Plan
from qconv.target import Target

MOST_BYTES = 256  # of x that a thread has in flight
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True)
class Choosing(Config):
    family: ClassVar[str] = "choosing"
    threads: int
    team: int  # threads that look at one slice
    vector: int  # neighbouring elements of a thread
    unroll: int  # vectors that a thread has in flight
    slices: int  # of a channel; more than one takes two launches


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256, 512, 1024),
    "team": (32, 128, 256, 512, 1024),
    "vector": (1, 4, 8, 16),
    "unroll": (1, 2, 4),
    "slices": (1, 4, 16, 64, 256, 1024, 4096),
}


def plan(problem: Choose, config: Choosing, target: Target) -> Plan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(config.team, config.threads, "threads of a team (a block has no more)")
    count = problem.outer * problem.inner
    whole_vectors = problem.channels == 1 or problem.inner % config.vector == 0
    if not whole_vectors:
        raise Infeasible(f"vector={config.vector} does not divide inner={problem.inner}, so that rows begin between")
    if config.vector == 1 and (problem.channels == 1 or problem.inner % 4 == 0) and count >= 4:
        raise Infeasible("vector=1 loads element by element; only rows that vectors do not divide need it")
    at_most(
        config.vector * config.unroll * DATA_TYPES[problem.x_type].bytes, MOST_BYTES, "bytes a thread has in flight"
    )
    if config.slices > 1 and config.team < config.threads:
        raise Infeasible(f"slices={config.slices} with team={config.team}: a slice is looked at by a whole block")
    step = config.team * config.vector * config.unroll
    if step > 32 * 4:
        at_most(step * config.slices, 2 * count, f"elements that a channel's threads load at once (it has {count})")
    per_slice = ceil_div(count, config.slices * config.vector) * config.vector
    if (config.slices - 1) * per_slice >= count and config.slices > 1:
        raise Infeasible(f"slices={config.slices} of {per_slice} elements leave some empty: a channel has {count}")
    teams = config.threads // config.team
    real_bytes = 8 if choice_real(problem).ctype == "double" else 4
    smem_bytes = 2 * real_bytes * config.threads
    blocks = ceil_div(problem.channels * config.slices, teams)
    at_most(blocks, MOST_BLOCKS, "blocks along x")
    look = Launch(f"{problem.op}_look", (blocks, 1, 1), config.threads, smem_bytes)
    workspace: tuple[Field, ...] = ()
    if config.slices == 1:
        launches: tuple[Launch, ...] = (Launch(problem.op, look.grid, config.threads, smem_bytes),)
    else:
        finish, grid = ("dynamic_convert", look.grid) if isinstance(problem, Dynamic) else ("choose_finish", None)
        launches = (look, Launch(finish, grid or (problem.channels, 1, 1), config.threads, smem_bytes))
        words = 2 * problem.channels * config.slices * real_bytes // 4
        workspace = (
            Field(
                "partials",
                f"{choice_real(problem).ctype}*",
                "workspace",
                "least and largest of each slice",
                None,
                words,
            ),
        )
    following: tuple[Constant, ...] = ()
    if isinstance(problem, Dynamic):
        held = config.slices == 1 and per_slice <= step
        following = (
            Constant("SHARED_SCALE", True, "by the elements of a vector"),
            Constant("HELD", held, "a thread converts what it has looked at, without loading it again"),
        )
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="convert/choose.j2",
        constants={
            "The problem.": (
                *dimensions(problem),
                Constant("COUNT", count, "elements of a channel"),
            ),
            "The config.": (
                Constant("THREADS", config.threads),
                Constant("TEAM", config.team, "threads that look at one slice"),
                Constant("VECTOR", config.vector, "neighbouring elements of a thread"),
                Constant("UNROLL", config.unroll, "vectors that a thread has in flight"),
                Constant("SLICES", config.slices, "of a channel"),
            ),
            "What follows.": (
                Constant("TEAMS", teams, "of a block"),
                *following,
                Constant("SLICE", per_slice, "elements of a slice; the last may have fewer"),
                Constant("SMEM_BYTES", smem_bytes),
            ),
        },
        launches=launches,
        fields=argument_fields(problem, workspace),
        alignment={t.name: DATA_TYPES[t.dtype].bytes for t in (*problem.inputs, *problem.outputs)}
        | {"x": min(16, config.vector * DATA_TYPES[problem.x_type].bytes)}
        | ({"y": min(16, config.vector * DATA_TYPES[problem.out_type].bytes)} if isinstance(problem, Dynamic) else {}),
        aliases=aliases(problem),
    )


def cost(plan: Plan) -> float:
    """A GPU is about 132 multiprocessors that want 64 bytes in flight a thread and 1024 threads each; a second launch
    costs as much as some megabytes."""
    config, problem = plan.config, plan.problem
    assert isinstance(config, Choosing)
    assert isinstance(problem, Choose)
    per_team = problem.outer * problem.inner / config.slices / (config.team * config.vector)
    teams = problem.channels * config.slices
    busy = min(1.0, teams * config.team / (132 * 1024))
    in_flight = min(64, config.vector * config.unroll * DATA_TYPES[problem.x_type].bytes)
    return per_team * config.vector / busy / in_flight * max(1.0, teams * config.team / (132 * 1024)) + (
        500 * (config.slices > 1)
        + config.threads / 256
        + abs(config.vector * DATA_TYPES[problem.x_type].bytes - 16) / 16
    )
