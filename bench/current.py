"""True for a row that was measured on today's kernels. A row has the digest of each kernel's source beside its config;
today's generator gives the same problem and config another digest once the kernel has changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from qconv import generator
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.generator import Plan, config_from_json
from qconv.instances.choose.lookup import choose
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.ops.registry import parse
from qconv.targets.target import target as target_of

Row = dict[str, Any]


def digest_of(plan: Plan) -> str:
    return generator.render_kernels(plan).digest


def kernels(plans: Mapping[str, Plan]) -> Row:
    """Return the fields of a row that has several kernels: problem, config and digest by the names of `plans`."""
    return {
        "problems": {name: str(plan.problem) for name, plan in plans.items()},
        "configs": {name: plan.config.as_dict() for name, plan in plans.items()},
        "digests": {name: digest_of(plan) for name, plan in plans.items()},
    }


def kernels_of(problems: Iterable[Problem], device: Device, db: str | None, in_sequence: bool = False) -> Row:
    """Return configs and digests of the kernels that a network looks up, by the keys of their problems."""
    with open_layers(db, device) as layers:
        plans = {}
        for problem in problems:
            with suppress(Infeasible):  # an alternative that nothing serves is no kernel of the network
                plans[str(problem)] = choose(problem, device, layers, in_sequence).plan
    return {name: fields for name, fields in kernels(plans).items() if name != "problems"}


def is_current(row: Row, target: str) -> bool:
    """Tell whether all kernels of the row are today's. A row without digests is not."""
    return all(digest is not None and digest == _today(*kernel, target) for digest, *kernel in _recorded(row))


def _recorded(row: Row) -> Iterator[tuple[str | None, str, str]]:
    """Digest, problem and config of each kernel."""
    digests, problems = row.get("digests", {}), row.get("problems", {})
    for name, config in row.get("configs", {}).items():
        yield digests.get(name), problems.get(name, row.get("problem", name)), json.dumps(config)
    if "configs" not in row:
        yield row.get("digest"), row.get("problem", ""), json.dumps(row.get("config"))


@cache
def _today(problem: str, config: str, target: str) -> str | None:
    try:
        return digest_of(generator.plan(parse(problem), config_from_json(config), target_of(target)))
    except (Infeasible, ValueError):  # the config is not feasible any more, or has other fields
        return None
