"""The tuning loop: known rows, the default and the neighbours first, then the search; every trial is a row at once."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from qconv import generator
from qconv.device import Device
from qconv.device.compile import compiler_for
from qconv.errors import CompileTimeout
from qconv.fused import Chain
from qconv.generator import Config, Plan
from qconv.instances.lookup import choose
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement, best_of, ranked
from qconv.tuner.ahead import Ahead
from qconv.tuner.child import Child
from qconv.tuner.evaluate import failure
from qconv.tuner.protocol import protocol_for
from qconv.tuner.search import Search

FINALISTS = 4  # how many are raced at a time for the first time
MOST_TURNS = 5  # of one config in races that others lead
HINTS = 12


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
    of_families: dict[str, Measurement]  # the best of each


def tune(
    problem: Problem,
    device: Device,
    database: Database,
    *,
    trials: int,
    timeout_s: float = 60.0,
    seed: int = 0,
    shipped: Layered | None = None,
    child: Child | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Bring the number of configs measured for this problem up to `trials`; what an earlier run measured counts.

    The default and the config that lookup would use now are measured first, so that a tuned answer never loses to not
    tuning. A row is written the moment it is known: interrupting loses nothing. `child` is one that goes on to the next
    problem: starting it takes seconds.
    """
    layers = Layered([database, *([shipped] if shipped is not None else [])])
    start = generator.default(problem, device.target).config
    toolchain = compiler_for(device.target).toolchain
    own = Child(device, protocol_for(device), timeout_s) if child is None else contextlib.nullcontext(child)
    with own as child, Ahead(toolchain, timeout_s) as ahead:
        child.start()
        if isinstance(problem, Chain):
            for one in (problem.first, problem.rest):
                tune(
                    one,
                    device,
                    database,
                    trials=trials,
                    timeout_s=timeout_s,
                    seed=seed,
                    shipped=shipped,
                    child=child,
                    watch=watch,
                )
        plans, _ = generator.space(problem, device.target)
        others = _apart(problem, device, layers)
        rows = _known(problem, [*plans, *others], device, database, toolchain)
        known = len(rows)
        for other in others:
            if other.config not in rows:
                rows[other.config] = child.measure(problem, other.config)
                database.add(rows[other.config])
        first = [start, choose(problem, device, layers)[0].config, *_hints(problem, device, layers)]
        search = Search(plans, first, {c: row.median_us for c, row in rows.items()}, seed) if plans else None
        total = min(trials, len(plans)) + len(others)
        while True:
            while search and not ahead.full and len(rows) + len(ahead) < total and (proposed := search.ask()):
                ahead.submit(proposed)
            if not search or not ahead:
                break
            plan, refused = ahead.next()
            if refused is not None:
                outcome = "timeout" if isinstance(refused, CompileTimeout) else "compile"
                row = failure(problem, plan.config, device, toolchain, outcome, str(refused))
            else:
                row = child.measure(problem, plan.config, _best_us(rows))
            database.add(row)
            rows[plan.config] = row
            search.tell(plan.config, row.median_us)
            watch(Progress(len(rows), total, row, best_of(rows.values())))
        if len(rows) > known:
            _race(problem, start, child, database, rows)
    failures: dict[str, int] = {}
    for row in rows.values():
        if row.outcome != "correct":
            failures[row.outcome] = failures.get(row.outcome, 0) + 1
    return Outcome(
        problem=problem,
        device=device.name,
        target=device.target.name,
        space=len(plans) + len(others),
        measured=len(rows) - known,
        known=known,
        failures=failures,
        default=rows.get(start),
        # Not the database's best: that may have been measured on an older template.
        best=best_of(rows.values()),
        of_families=_of_families(rows),
    )


def _of_families(rows: dict[Config, Measurement]) -> dict[str, Measurement]:
    groups: dict[str, list[Measurement]] = {}
    for config, row in rows.items():
        groups.setdefault(config.family, []).append(row)
    found = {family: best_of(group) for family, group in sorted(groups.items())}
    return {family: best for family, best in found.items() if best is not None}


def _apart(problem: Problem, device: Device, layers: Layered) -> list[Plan]:
    """What competes with one kernel for a chain: the winners of the first and of the rest."""
    if not isinstance(problem, Chain):
        return []
    return [generator.apart_plan(problem, device.target, lambda one: choose(one, device, layers)[0].config)]


def _known(
    problem: Problem, plans: list[Plan], device: Device, database: Database, toolchain: str
) -> dict[Config, Measurement]:
    """Rows of an earlier run that still hold: same toolchain, same source. A time-out is tried again."""
    rows = database.measurements(problem=problem, device=device.name, target=device.target.name)
    current = {row.config: row for row in rows if row.toolchain == toolchain and row.outcome != "timeout"}
    return {
        plan.config: current[plan.config]
        for plan in plans
        if plan.config in current and generator.render(plan).digest == current[plan.config].digest
    }


def _hints(problem: Problem, device: Device, layers: Layered) -> list[Config]:
    """What was fastest on older templates, which is likely to be so still."""
    rows = layers.measurements(problem=problem, device=device.name, target=device.target.name)
    return list(dict.fromkeys(row.config for row in ranked(rows)))[:HINTS]


def _best_us(rows: dict[Config, Measurement]) -> float | None:
    """Of what was timed in full, which a candidate is compared with."""
    first = next(iter(ranked(rows.values())), None)
    return None if first is None or first.screened else first.median_us


def _race(problem: Problem, default: Config, child: Child, database: Database, rows: dict[Config, Measurement]) -> None:
    """Until the fastest of all rows is one of the last race, which the default took part in: see `protocol`."""
    turns = Counter[Config]()
    last: list[Config] = []
    while True:
        fastest = sorted((row for row in rows.values() if row.correct), key=lambda row: row.median_us or 0.0)
        order = [row.config for row in fastest]
        # Ties go to the simpler config, which need not be the first.
        ahead = [*order[:1], *(row.config for row in [best_of(fastest)] if row is not None)]
        if len(order) < 2 or all(config in last or turns[config] == MOST_TURNS for config in ahead):
            return
        # The best of an earlier race runs again: times of two races say little of each other. So does the default, that
        # a speed-up is of two times of one race.
        leader = [config for config in order if config in last][:1]
        fresh = [config for config in order if not turns[config]][:FINALISTS]
        last = list(dict.fromkeys([*leader, *(config for config in order if config == default), *ahead, *fresh]))
        results = child.race(problem, last)
        if not results:
            return
        for row in results:
            database.add(row)
            rows[row.config] = row
        turns.update(last)
