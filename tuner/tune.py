"""The tuning loop: known rows, the default and the neighbours first, then the search; every trial is a row at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qconv import generator
from qconv.device import Device
from qconv.generator import Config
from qconv.instances.lookup import choose
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.child import Child
from qconv.tuner.protocol import protocol_for
from qconv.tuner.search import Search


@dataclass(frozen=True)
class Progress:
    """What a watcher is told after every trial."""

    done: int
    total: int
    row: Measurement
    best: Measurement | None


@dataclass(frozen=True)
class Outcome:
    problem: Problem
    device: str
    target: str
    space: int
    measured: int  # in this run
    known: int  # rows that were in the database before
    failures: dict[str, int]
    default: Measurement | None
    best: Measurement | None


def tune(
    problem: Problem,
    device: Device,
    database: Database,
    *,
    trials: int,
    timeout_s: float = 60.0,
    seed: int = 0,
    shipped: Layered | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Bring the number of configs measured for this problem up to `trials`; what an earlier run measured counts.

    The default and the config that lookup would use now are measured first, so that a tuned answer never loses to not
    tuning. A row is written the moment it is known: interrupting loses nothing.
    """
    layers = Layered([database, *([shipped] if shipped is not None else [])])
    start = generator.default(problem, device.target).config
    with Child(device, protocol_for(device), timeout_s) as child:
        rows = _known(problem, device, database, child.toolchain)
        first = [start, choose(problem, device, layers)[0].config]
        search = Search(problem, device.target, first, {c: row.median_us for c, row in rows.items()}, seed)
        known, total = len(rows), min(trials, search.size)
        while len(rows) < total:
            config = search.ask()
            if config is None:
                break
            row = child.measure(problem, config)
            database.add(row)
            rows[config] = row
            search.tell(config, row.median_us)
            watch(Progress(len(rows), total, row, best_of(rows.values())))
    failures: dict[str, int] = {}
    for row in rows.values():
        if row.outcome != "correct":
            failures[row.outcome] = failures.get(row.outcome, 0) + 1
    return Outcome(
        problem=problem,
        device=device.name,
        target=device.target.name,
        space=search.size,
        measured=len(rows) - known,
        known=known,
        failures=failures,
        default=rows.get(start),
        # Not the database's best: that may have been measured on an older template.
        best=best_of(rows.values()),
    )


def _known(problem: Problem, device: Device, database: Database, toolchain: str) -> dict[Config, Measurement]:
    """Rows of an earlier run that still hold: same toolchain, same source. A time-out is tried again."""
    plans, _ = generator.space(problem, device.target)
    rows = database.measurements(problem=problem, device=device.name, target=device.target.name)
    current = {row.config: row for row in rows if row.toolchain == toolchain and row.outcome != "timeout"}
    return {
        plan.config: current[plan.config]
        for plan in plans
        if plan.config in current and generator.render(plan).digest == current[plan.config].digest
    }
