"""The times of a network's layers after some minutes of tuning from nothing, and after a fifth of those minutes.

    python bench/five_minutes.py LAYERS.csv --models '^resnet50' --batch 32 --seconds 290 --db new.sqlite \\
        --suite five_minutes_resnet50 --out bench/results/nvidia-h200

The database must be empty, and the shipped winners are hidden from the tuner. While it tunes, the best config of each
layer is recorded. The best at each fraction of the time, the default, and the fastest of earlier measurements (of
`measured/` and of the shipped winners) are then timed in one race per layer. A run limited to a fraction of the time
would have spread it over the layers and raced them, so the recorded times are rather pessimistic.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import measured
from report import Report
from workload import Layer, chosen_by, distinct, parser_of

from qconv import Conv2d, generator
from qconv.device import Device, open_device
from qconv.device.compile import compiler_for
from qconv.errors import Infeasible
from qconv.generator import Config
from qconv.instances.choose import shipped
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import protocol_for
from qconv.tuner.search.compile_ahead import Ahead
from qconv.tuner.search.tune import Outcome, Search
from qconv.tuner.workload import Place, Workload
from qconv.tuner.workloads.allocation import Budget
from qconv.tuner.workloads.schedule import OneDevice, Step, Told, Visit, tune_workload

Row = dict[str, Any]

TIMEOUT_S = 30.0  # per config
CLOCKED = ("seconds", "before_first_s", "measuring_s", "racing_s")
FRACTIONS = (0.1, 0.2, 0.5, 1.0)
DEFAULT, KNOWN = "default", "known"
MOST_KNOWN = 3  # measured configs to race again: a narrow winner may not be the fastest


class Clocked(Child):
    """A child that adds up the time its worker is waited for, and records its first request since `first_at` was
    cleared."""

    measuring_s = racing_s = 0.0
    first_at: float | None = None

    def measure(self, candidate: Candidate, best_us: float | None = None) -> Measurement:
        begin = time.monotonic()
        self.first_at = self.first_at or begin
        row = super().measure(candidate, best_us)
        self.measuring_s += time.monotonic() - begin
        return row

    def race(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        begin = time.monotonic()
        rows = super().race(candidates)
        self.racing_s += time.monotonic() - begin
        return rows


class FromNothing(OneDevice):
    """A device without shipped winners that records the duration of each visit."""

    def __init__(self, device: Device, database: Database, child: Clocked) -> None:
        super().__init__(device, database, Search(0, TIMEOUT_S), child, Layered([]))
        self.clocked = child
        self.visits: list[Row] = []

    def pay(self, visits: Iterable[Visit], tell: Told) -> Iterator[Outcome]:
        child = self.clocked
        for visit in visits:
            begin, measuring_s, racing_s = time.monotonic(), child.measuring_s, child.racing_s
            child.first_at = None
            (outcome,) = super().pay([visit], tell)
            self.visits.append(
                {
                    "problem": str(visit.problem),
                    "trials": outcome.measured,
                    "known": outcome.known,
                    "space": outcome.space,
                    "seconds": time.monotonic() - begin,
                    "before_first_s": (child.first_at or time.monotonic()) - begin,
                    "measuring_s": child.measuring_s - measuring_s,
                    "racing_s": child.racing_s - racing_s,
                }
            )
            yield outcome


@dataclass
class Notes:
    """The best result of each problem, whenever it changed, with the seconds since the tuning began."""

    begun: float
    told: dict[Problem, list[tuple[float, Config]]] = field(default_factory=dict)
    trials: dict[Problem, list[float]] = field(default_factory=dict)

    def __call__(self, step: Step) -> None:
        at = time.monotonic() - self.begun
        self.trials.setdefault(step.problem, []).append(at)
        if step.best is not None:
            self.told.setdefault(step.problem, []).append((at, step.best.config))

    def best(self, problem: Problem, after_s: float) -> Config | None:
        found = [config for at, config in self.told.get(problem, []) if at <= after_s]
        return found[-1] if found else None

    def measured(self, problem: Problem, after_s: float) -> int:
        return sum(at <= after_s for at in self.trials.get(problem, []))


def known_configs(problem: Conv2d, device: Device, rows: list[measured.Row]) -> list[Config]:
    """Return the fastest configs of earlier measurements, by the times of their day."""
    fastest = [row.plan.config for row in sorted(rows, key=lambda row: row.us)[:MOST_KNOWN]]
    winner = shipped.layer(device.name).best(problem, device.name, device.target.name)
    return list(dict.fromkeys(fastest if winner is None else [winner.config, *fastest]))


def candidates_of(problem: Conv2d, configs: Iterable[Config], device: Device) -> dict[Config, Candidate]:
    """Return the configs that this device can run."""
    found: dict[Config, Candidate] = {}
    for config in configs:
        try:
            found[config] = Candidate.of(generator.plan(problem, config, device.target))
        except Infeasible:
            continue
    return found


def compiled(candidates: Iterable[Candidate], device: Device) -> None:
    """Compile all candidates into the cache, on all cores: a worker would compile them one by one."""
    with Ahead(compiler_for(device.target).toolchain, TIMEOUT_S) as ahead:
        for candidate in candidates:
            if ahead.full:
                ahead.next()
            ahead.submit(candidate)
        while ahead:
            ahead.next()


def name_of(fraction: float) -> str:
    return f"{fraction:g}"


@dataclass(frozen=True)
class Contest:
    """The entrants of one problem's race: the default, the best at each fraction of the time, and earlier winners."""

    problem: Problem
    layers: list[Layer]
    entrants: dict[str, Config]
    known: list[Config]
    candidates: dict[Config, Candidate]

    def row(self, rows: list[Measurement]) -> Row:
        us = {row.config: row.median_us for row in rows if row.median_us is not None}
        times = {name: us[config] for name, config in self.entrants.items() if config in us}
        before = {us[config]: config for config in self.known if config in us}
        configs = dict(self.entrants)
        if before:
            times[KNOWN], configs[KNOWN] = min(before), before[min(before)]
        failed = {str(row.config): row.reason or row.outcome for row in rows if not row.correct}
        return {
            "name": self.layers[0].name,
            "count": len(self.layers),
            "problem": str(self.problem),
            "time_us": times.get(name_of(FRACTIONS[-1])),
            "times_us": times,
            "configs": {name: config.as_dict() for name, config in configs.items()},
            "digests": {name: self.candidates[config].digest for name, config in configs.items()},
            "failed": failed,
            "verified": not failed and len(us) == len(self.candidates),
        }


def contests(same: dict[Conv2d, list[Layer]], device: Device, notes: Notes, seconds: float) -> list[Contest]:
    before = measured.read()
    found = []
    for problem, layers in same.items():
        default = generator.default(problem, device.target).config
        entrants = {DEFAULT: default}
        entrants |= {name_of(part): notes.best(problem, part * seconds) or default for part in FRACTIONS[:-1]}
        # The races of the last visit end after the limit, as they do for users.
        entrants[name_of(FRACTIONS[-1])] = notes.best(problem, float("inf")) or default
        known = known_configs(problem, device, before.get(problem, []))
        candidates = candidates_of(problem, [*entrants.values(), *known], device)
        found.append(Contest(problem, layers, entrants, known, candidates))
    return found


def totals_us(rows: list[Row], names: Iterable[str]) -> dict[str, float]:
    return {name: sum(row["count"] * row["times_us"][name] for row in rows) for name in names}


def summary(rows: list[Row], engine: FromNothing) -> Row:
    """Return the sums of the layers' times, weighted by their counts in the network. Earlier winners cover fewer
    layers."""
    last, names = name_of(FRACTIONS[-1]), [DEFAULT, *map(name_of, FRACTIONS)]
    whole = [row for row in rows if all(name in row["times_us"] for name in names)]
    both = [row for row in whole if KNOWN in row["times_us"]]
    sums, known = totals_us(whole, names), totals_us(both, [last, KNOWN])
    visits = engine.visits
    first = [visit for visit in visits if not visit["known"]]
    return {
        "rows": len(rows),
        "layers": sum(row["count"] for row in rows),
        "verified": sum(row["verified"] for row in rows),
        "total_us": sums,
        "over_last": {name: us / sums[last] for name, us in sums.items()} if whole else {},
        "known": {
            "rows": len(both),
            "layers": sum(row["count"] for row in both),
            "total_us": known,
            "last_over_known": known[last] / known[KNOWN] if both else None,
        },
        "visits": {
            "visits": len(visits),
            "trials": sum(visit["trials"] for visit in visits),
            **{name: sum(visit[name] for visit in visits) for name in CLOCKED},
            "first_visits": {name: sum(visit[name] for visit in first) for name in ("trials", *CLOCKED)},
        },
    }


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=290.0, help="of tuning (default: %(default)g)")
    parser.add_argument("--db", required=True, help="a new one")
    parser.add_argument("--device")
    parser.add_argument("--suite", default="five_minutes", help="the name of the results (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    layers = chosen_by(options)
    same = distinct(layers)
    workload = Workload.of(options.models, [Place(layer.name, layer.problem) for layer in layers])
    device = open_device(options.device)
    protocol = protocol_for(device)
    report = Report(options.out, options.suite, device, protocol.race.as_dict(), options.commit)
    child = Clocked(device, protocol, TIMEOUT_S)
    with Database.open(options.db) as database, child:
        if database.measurements():
            raise SystemExit(f"{options.db} has rows: to begin with nothing, name a new database")
        engine, notes = FromNothing(device, database, child), Notes(time.monotonic())
        tune_workload(workload, engine, database, Budget(seconds=options.seconds), notes)
        tuned_s = time.monotonic() - notes.begun
        raced = contests(same, device, notes, options.seconds)
        compiled((one for contest in raced for one in contest.candidates.values()), device)
        rows: list[Row] = []
        for contest in raced:
            trials = {name_of(part): notes.measured(contest.problem, part * options.seconds) for part in FRACTIONS}
            rows.append(contest.row(child.race(list(contest.candidates.values()))) | {"trials": trials})
            said = {"seconds": options.seconds, "tuned_s": tuned_s} | summary(rows, engine)
            report.write(rows, said | {"of_visits": engine.visits})
            print(f"{rows[-1]['name']:<44}{rows[-1]['times_us']}  {rows[-1]['failed'] or ''}", flush=True)
    print({name: value for name, value in said.items() if name != "of_visits"})


if __name__ == "__main__":
    main()
