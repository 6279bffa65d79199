"""The state of a workload in the database: the rows that are still valid, and the times of each problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from qconv import generator
from qconv.device import Device
from qconv.device.compile import compiler_for
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.op import Problem
from qconv.targets.target import Target
from qconv.targets.target import target as target_named
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.search.tune import are_of_one_race
from qconv.tuner.workload import Entry, Workload


@dataclass(frozen=True)
class Station:
    """The device of the measurements as its rows name it. The device itself may be on another host."""

    name: str
    target_name: str
    toolchain: str

    @classmethod
    def of(cls, device: Device) -> Station:
        return cls(device.name, device.target.name, compiler_for(device.target).toolchain)

    @property
    def target(self) -> Target:
        return target_named(self.target_name)


@dataclass(frozen=True)
class Result:
    """The result of one problem. `default_us` is of the race that `tuned_us` won. If they were never in one race,
    `is_raced` is False and their ratio means little. Both are None where no kernel was measured correct."""

    entry: Entry
    trials: int
    default_us: float | None
    tuned_us: float | None
    is_raced: bool
    config: str | None

    @property
    def speed_up(self) -> float | None:
        if self.default_us is None or self.tuned_us is None or not self.is_raced:
            return None
        return self.default_us / self.tuned_us


@dataclass(frozen=True)
class Summary:
    """Total times of the layers, each multiplied by its count, over the `timed` of `layers` layers that have both times
    from one race."""

    timed: int
    layers: int
    default_us: float
    tuned_us: float

    @classmethod
    def of(cls, results: Iterable[Result]) -> Summary:
        layers = [one for one in results if one.entry.role == "layer"]
        both = [(one.entry.count, one.default_us, one.tuned_us) for one in layers if one.speed_up is not None]
        return cls(
            timed=sum(count for count, _, _ in both),
            layers=sum(one.entry.count for one in layers),
            default_us=sum(count * us for count, us, _ in both if us is not None),
            tuned_us=sum(count * us for count, _, us in both if us is not None),
        )


def results(workload: Workload, station: Station, database: Database) -> list[Result]:
    return [_result(entry, station, database) for entry in workload.entries]


def holding(problem: Problem, station: Station, database: Database) -> list[Measurement]:
    """Return the rows of this device and compiler whose sources are today's, without timeouts, which are tried again.
    If the best and the oldest row are valid, so are all between; they are rendered only if a config was measured with
    several sources."""
    where = {"device": station.name, "target": station.target_name}
    every = database.measurements(problem=problem, **where)
    rows = [row for row in every if row.toolchain == station.toolchain and row.outcome != "timeout"]
    best, configs = best_of(rows), {row.config for row in rows}
    if best is not None and len(configs) == len(rows) and is_todays(best):
        oldest = min(rows, key=lambda row: row.created_at)
        if is_todays(oldest):
            return rows
    return [row for row in rows if is_todays(row)]


@lru_cache(maxsize=1024)
def untuned(problem: Problem, target: Target) -> Plan:
    """Return the default, cached: for a chain the cost model takes most of a second."""
    return generator.default(problem, target)


def is_todays(row: Measurement) -> bool:
    """True where today's templates generate the source that was measured."""
    try:
        plan = generator.plan(row.problem, row.config, target_named(row.target))
    except Infeasible:
        return False
    return generator.render_kernels(plan).digest == row.digest


def _result(entry: Entry, station: Station, database: Database) -> Result:
    rows = holding(entry.problem, station, database)
    best = best_of(rows)
    if best is None:
        return Result(entry, len(rows), None, None, False, None)
    config = untuned(entry.problem, station.target).config
    default = next((row for row in rows if row.config == config), None)
    return Result(
        entry=entry,
        trials=len(rows),
        default_us=default.median_us if default is not None else None,
        tuned_us=best.median_us,
        is_raced=default is not None and are_of_one_race([best, default]),
        config=str(best.config),
    )
