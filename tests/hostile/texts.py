"""Keys, configs and rows in text form."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from zlib import crc32

from measurement_samples import make_measurement
from random_conversions import conversions
from random_fused import fused_problems
from random_matrix import matrix_problems
from random_problems import problems
from random_tensor_ops import tensor_op_problems

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.op import Problem
from qconv.ops.registry import parse
from qconv.targets.target import Target, target
from qconv.tune_db import text as rows_text
from tests.hostile.judge import Surface, Wrong
from tests.hostile.mutations import decoded, encoded, of_bytes, of_json, of_words

# One in this many accepted configs is also rendered, which takes a hundred times longer.
RENDERED = 64


@cache
def valid_problems() -> tuple[Problem, ...]:
    """Return some problems of each op."""
    cpu = target("cpu")
    return (
        *problems(0, 40),
        *fused_problems(0, 6, cpu),
        *fused_problems(0, 4, cpu, 3),
        *conversions(0, 20),
        *tensor_op_problems(0, 20),
    )


@cache
def _key_words() -> tuple[str, ...]:
    return tuple(sorted({part for problem in valid_problems() for part in str(problem).replace("=", ":").split(":")}))


def draw_key(rng: Random) -> bytes:
    key = str(rng.choice(valid_problems()))
    if rng.random() < 0.2:
        return of_bytes(rng, key.encode())
    return encoded(of_words(rng, key, _key_words()))


def take_key(given: bytes) -> None:
    """Check that the canonical form is a fixed point, and that the derived values are sound."""
    problem = parse(decoded(given))
    again = parse(str(problem))
    if again != problem or str(again) != str(problem):
        raise Wrong(f"{str(problem)!r} reads back as {str(again)!r}")
    if problem.io_bytes < 1 or problem.operations < 0 or not all(extent > 0 for extent in problem.extents.values()):
        raise Wrong(f"{problem} moves {problem.io_bytes} bytes, computes {problem.operations}")
    if any(not all(1 <= extent < 2**31 for extent in tensor.shape) for tensor in (*problem.inputs, *problem.outputs)):
        raise Wrong(f"{problem} has an extent that is none")


@cache
def _plans() -> tuple[Plan, ...]:
    """Return one plan per family and target that has any problem here."""
    found: dict[str, Plan] = {}
    for name in ("cpu", "sm_80", "sm_90a", "gfx942", "gfx1100"):
        to = target(name)
        for problem in (*valid_problems()[::3], *matrix_problems(0, 4, to)):
            for family in generator.families(problem):
                if f"{family} {name}" not in found and (plan := _first(problem, family, to)) is not None:
                    found[f"{family} {name}"] = plan
    return tuple(found.values())


def _first(problem: Problem, family: str, to: Target) -> Plan | None:
    for number, config in enumerate(generator.FAMILIES[family].configs(problem, to)):
        if number > 200:
            return None
        try:
            return generator.plan(problem, config, to)
        except Infeasible:
            continue
    return None


def draw_config(rng: Random) -> bytes:
    """Return the number of a plan and a config for it as JSON."""
    number = rng.randrange(len(_plans()))
    config = json.dumps(_plans()[number].config.as_dict())
    text = encoded(of_json(rng, config)) if rng.random() < 0.5 else encoded(of_words(rng, config))
    if rng.random() < 0.2:
        text = of_bytes(rng, text)
    return b"%d %b" % (number, text)


def take_config(given: bytes) -> None:
    """Check that the config round-trips, and that its plan fits the target and can be rendered."""
    number, _, text = given.partition(b" ")
    base = _plans()[int(number)]
    config = generator.config_from_json(decoded(text))
    if generator.config_from_json(json.dumps(config.as_dict())) != config:
        raise Wrong(f"{config} does not come back")
    plan = generator.plan(base.problem, config, base.target)
    for launch in plan.launches:
        if not 1 <= launch.threads <= 1024 or launch.smem_bytes > base.target.smem_bytes or min(launch.grid) < 1:
            raise Wrong(f"{config} launches {launch} on {base.target.name}")
    if not generator.cost(plan) > 0:
        raise Wrong(f"{config} costs {generator.cost(plan)}")
    if crc32(given) % RENDERED == 0:
        generator.render(plan)


@cache
def _rows() -> str:
    return rows_text.dump([make_measurement(0), make_measurement(1, outcome="compile")])


def draw_rows(rng: Random) -> bytes:
    if rng.random() < 0.7:
        return encoded(of_json(rng, _rows()))
    return of_bytes(rng, _rows().encode())


def take_rows(given: bytes) -> None:
    """Check that accepted rows round-trip."""
    taken = rows_text.parse(decoded(given), "rows.json")
    if rows_text.parse(rows_text.dump(taken), "again") != sorted(taken, key=lambda row: row.key):
        raise Wrong("the rows do not come back as they were taken")


SURFACES = (
    Surface("keys", draw_key, take_key, cases=48_000),
    Surface("configs", draw_config, take_config, cases=36_000),
    Surface("rows", draw_rows, take_rows, cases=10_000),
)
