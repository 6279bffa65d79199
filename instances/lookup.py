"""problem + device -> the best instance known: tuned for exactly this problem, or for its nearest, or the default."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import inf, log2
from pathlib import Path
from typing import TYPE_CHECKING

from qconv import generator
from qconv.device import Device, cache, open_device
from qconv.device.compile import build
from qconv.errors import Infeasible
from qconv.fused import Chain
from qconv.generator import Plan
from qconv.instances.instance import Instance
from qconv.instances.pair import Chosen, Pair
from qconv.op import Problem
from qconv.target import Target
from qconv.tune_db.measurement import ranked

if TYPE_CHECKING:
    from qconv.tune_db.layered import Layered
    from qconv.tune_db.measurement import Measurement

log = logging.getLogger("qconv")

# Beyond this distance a neighbour's config tells less than the cost model. One unit is a factor of two in one extent.
FARTHEST = 4.0
# The model of one kernel for several is right to a tenth, so that only a close neighbour's config tells more.
FARTHEST_CHAIN = 1.0
# What was measured on today's templates goes before what was faster on older ones, up to here: a change of a template
# seldom changes more.
ABOUT_AS_FAST = 1.25

_warm: dict[tuple[Problem, str | None, str | None], Chosen] = {}


def lookup(problem: Problem, device: str | None = None, database: str | None = None) -> Chosen:
    """The instance to use, which says where it comes from. The first call opens the database and loads the binary;
    later ones are one dictionary hit, until `forget()`."""
    instance = _warm.get((problem, device, database))
    if instance is None:
        instance = _warm[problem, device, database] = _cold(problem, open_device(device), database)
    return instance


def forget() -> None:
    """Make the next lookups see what was tuned in the meantime."""
    _warm.clear()


def default_database() -> str:
    return os.environ.get("QCONV_DB") or str(cache.cache_root() / "tune.sqlite")


def _cold(problem: Problem, device: Device, database: str | None) -> Chosen:
    with open_layers(database, device) as layers:
        plan, origin, reason, toolchain = choose(problem, device, layers)
    log.info("%s on %s: %s", problem, device.name, reason)
    return load(plan, device, origin, reason, toolchain)


def load(plan: Plan, device: Device, origin: str, reason: str, toolchain: str | None = None) -> Chosen:
    """An `Instance`, or a `Pair` of them where the plan has two parts."""
    if plan.parts:
        first, second = (load(part, device, origin, reason, toolchain) for part in plan.parts)
        assert isinstance(first, Instance)
        return Pair(plan, first, second, device, origin, reason)
    binary = build(plan, toolchain)
    return Instance(plan, binary, device.load(plan, binary), device, origin, reason)


@contextmanager
def open_layers(database: str | None, device: Device) -> Iterator[Layered]:
    """The user's database, if there is one, over the shipped winners. One that was named must exist."""
    from qconv.instances import shipped
    from qconv.tune_db.database import Database
    from qconv.tune_db.layered import Layered

    over = shipped.layer(device.name)
    chosen = database or default_database()
    if database is None and "://" not in chosen and not Path(chosen).exists():
        yield Layered([over])
        return
    with Database.open(chosen, create=False) as rows:
        yield Layered([rows, over])


def choose(problem: Problem, device: Device, layers: Layered) -> tuple[Plan, str, str, str | None]:
    """The plan, its origin, the origin in words, and the toolchain that the winner was built by."""
    target = device.target
    found = _exact(problem, device, layers)
    if found is not None:
        plan, row, note = found
        reason = f"exact: tuned at {row.median_us:.2f} us on {row.created_at:%Y-%m-%d}{note}"
        return plan, "exact", reason, row.toolchain
    for apart, neighbour in _neighbours(problem, layers.problems(device.name, target.name)):
        rows = layers.measurements(problem=neighbour, device=device.name, target=target.name)
        for row in ranked(rows):
            # The winner of a larger problem may be too large a tile for this one; then its best that fits.
            fitting = _planned(problem, row, target)
            if fitting is not None:
                reason = f"nearest: the config tuned for {neighbour}, {apart:.1f} doublings away"
                return fitting, "nearest", reason, None
    reason = "default: by the cost model, nothing near was tuned; run qconv-tune tune for a measured winner"
    return generator.default(problem, target), "default", reason, None


def _exact(problem: Problem, device: Device, layers: Layered) -> tuple[Plan, Measurement, str] | None:
    """The best row; where the templates have changed since, a row of today's before it, if it is about as fast."""
    target = device.target
    best = layers.best(problem, device.name, target.name)
    if best is None:
        return None
    planned = _planned(problem, best, target)
    if planned is not None and generator.render(planned).digest == best.digest:
        return planned, best, ""
    rows = layers.measurements(problem=problem, device=device.name, target=target.name)
    worth = inf if planned is None else ABOUT_AS_FAST * (best.median_us or 0.0)
    for row in ranked(rows):
        if (row.median_us or 0.0) > worth:
            continue
        plan = _planned(problem, row, target)
        if plan is not None and generator.render(plan).digest == row.digest:
            return plan, row, ""
    if planned is None:
        log.warning("%s: the tuned config %s is no longer feasible", problem, best.config)
        return None
    return planned, best, ", on an older template: tune again for a measured winner"


def _planned(problem: Problem, row: Measurement, target: Target) -> Plan | None:
    """The row's config for this problem, which need not be the row's own; None where it is not feasible."""
    try:
        return generator.plan(problem, row.config, target)
    except Infeasible:
        return None


def _neighbours(problem: Problem, known: list[Problem]) -> list[tuple[float, Problem]]:
    ranked = [(distance(problem, other), other) for other in known]
    farthest = FARTHEST_CHAIN if isinstance(problem, Chain) else FARTHEST
    return sorted((pair for pair in ranked if pair[0] <= farthest), key=lambda pair: (pair[0], pair[1].key))


@lru_cache(maxsize=4096)
def distance(a: Problem, b: Problem) -> float:
    """In doublings of the extents; another data type is half of one, another op is no neighbour."""
    if a.op != b.op:
        return inf
    others = b.extents
    apart: float = sum(abs(log2(extent / others[name])) for name, extent in a.extents.items())
    return apart + 0.5 * sum(own != other for own, other in zip(a.kinds, b.kinds, strict=True))
