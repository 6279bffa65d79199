"""The schedule of a workload: the order of its problems, the trials of each visit, and the reports to a watcher. Its
state is in the database, row by row, so an interrupted run continues where it stopped. `Spaces` keeps enumerated
spaces, because a problem is visited again after all the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from qconv import generator
from qconv.device import Device
from qconv.generator import Plan
from qconv.op import Problem
from qconv.targets.target import Target
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import protocol_for
from qconv.tuner.search.compile_ahead import compile_in_background
from qconv.tuner.search.tune import Outcome, Progress, Search, are_of_one_race, tune_alone
from qconv.tuner.workload import Entry, Workload
from qconv.tuner.workloads import allocation
from qconv.tuner.workloads.allocation import Budget, Standing
from qconv.tuner.workloads.result import Station, holding, untuned

# Plans kept, over all spaces. A plan takes 1.0 to 1.7 kB after a search has used it.
MOST_KEPT = 200_000


class Spaces:
    """A cache of enumerated spaces that keeps those stored first. Visits repeat in almost the same order, so evicting
    older spaces would drop the ones needed next."""

    def __init__(self, target: Target, most: int = MOST_KEPT) -> None:
        self._target, self._left = target, most
        self._kept: dict[Problem, Sequence[Plan]] = {}

    def plans(self, problem: Problem, again: bool) -> Sequence[Plan]:
        """Return the feasible plans, cheapest first. They stay cached while the problem may be visited `again`."""
        plans = self._kept.pop(problem, None)
        if plans is None:
            plans, _ = generator.space(problem, self._target)
        else:
            self._left += len(plans)
        if again and len(plans) <= self._left:
            self._kept[problem] = plans
            self._left -= len(plans)
        return plans


UNBOUNDED = 10**9
# Totals: trials that each problem has to reach. Seconds: time limit of a visit, from the remaining entries and its
# index among them.
Totals = Callable[[Sequence[Standing], int | None], list[int]]
Seconds = Callable[[Sequence[Entry], int], float | None]


@dataclass(frozen=True)
class Visit:
    """One problem to be tuned up to `trials` trials, in at most `seconds`, beginning before `deadline` by this host's
    time.monotonic(). `following` is the problem of the next visit; `again` is True where this problem may be visited
    once more."""

    problem: Problem
    trials: int
    seconds: float | None = None
    deadline: float | None = None
    following: Problem | None = None
    again: bool = False

    def search(self, how: Search) -> Search:
        """Return the search of a visit that begins now."""
        now = time.monotonic()
        ends = [] if self.deadline is None else [self.deadline]
        if self.seconds is not None:
            ends.append(now + self.seconds)
        return replace(how, trials=self.trials, until=min(ends, default=None))


@dataclass(frozen=True)
class Step:
    """A report to the watcher: `done` of `trials`, the row just measured, and its problem's best so far."""

    done: int
    trials: int | None  # None where only the time is limited
    problem: Problem
    row: Measurement
    best: Measurement | None
    remaining_s: float | None


Told = Callable[[Problem, Progress], None]


class Engine(Protocol):
    """Executes visits: one device here, or many workers. `width` is the number of visits at a time."""

    station: Station
    width: int

    def pay(self, visits: Iterable[Visit], tell: Told) -> Iterator[Outcome]:
        """Generate the outcome of each visit, in the order in which they end. Visits are taken from the iterable only
        when they can begin, so that later ones depend on the results of earlier ones."""
        ...


class OneDevice:
    """The engine of one device in this process: one visit at a time, all with one child process. `shipped` is the layer
    below the database, by default the shipped winners."""

    width = 1

    def __init__(
        self,
        device: Device,
        database: Database,
        how: Search,
        child: Child | None = None,
        shipped: Layered | None = None,
    ) -> None:
        self.station = Station.of(device)
        self._device, self._database, self._how, self._shipped = device, database, how, shipped
        self._child = Child(device, protocol_for(device), how.timeout_s) if child is None else child
        self._spaces = Spaces(device.target)

    def __enter__(self) -> OneDevice:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop()

    def pay(self, visits: Iterable[Visit], tell: Told) -> Iterator[Outcome]:
        for visit in visits:
            if visit.following is not None:
                # Compile the config that the next visit measures first. Otherwise the GPU would wait for the compiler
                # at every change of problem.
                first = untuned(visit.following, self._device.target)
                compile_in_background(first, self.station.toolchain, self._how.timeout_s)
            told = _Teller(visit.problem, tell)
            search = visit.search(self._how)
            where = self._device, self._database, self._child
            plans = self._spaces.plans(visit.problem, visit.again)
            yield tune_alone(visit.problem, *where, search, self._shipped, told, plans)


@dataclass(frozen=True)
class _Teller:
    problem: Problem
    tell: Told

    def __call__(self, progress: Progress) -> None:
        self.tell(self.problem, progress)


def tune_workload(
    workload: Workload,
    engine: Engine,
    database: Database,
    budget: Budget,
    watch: Callable[[Step], None] = lambda step: None,
) -> list[Outcome]:
    """Tune a workload and return the outcomes of all visits, of which a problem may have several. Problems that were
    finished before have none."""
    run = _Run(workload, engine, database, budget, watch)
    first = list(run.phase(allocation.first_totals, lambda entries, at: None, again=True))
    return first + list(run.phase(allocation.totals, run.seconds, again=False))


@dataclass
class _Run:
    workload: Workload
    engine: Engine
    database: Database
    budget: Budget
    watch: Callable[[Step], None]
    known: dict[Problem, int] = field(default_factory=dict)
    spaces: dict[Problem, int] = field(default_factory=dict)
    best: dict[Problem, Measurement | None] = field(default_factory=dict)
    measured: int = 0

    def __post_init__(self) -> None:
        self.begun = time.monotonic()
        self._predicted: dict[Problem, float] = {}
        for entry in self.workload.entries:
            rows = holding(entry.problem, self.engine.station, self.database)
            self.known[entry.problem], self.best[entry.problem] = len(rows), best_of(rows)
            default = untuned(entry.problem, self.engine.station.target)
            self._predicted[entry.problem] = generator.predicted_us(default)
            raced = [row for row in (self.best[entry.problem], *_of(default.config, rows)) if row is not None]
            if not are_of_one_race(raced):
                # It was interrupted before its races. Visit it once more, for these alone.
                self.known[entry.problem] = 0
        self.wanted = sum(allocation.totals(self._standings(), self.budget.trials))

    @property
    def deadline(self) -> float | None:
        return None if self.budget.seconds is None else self.begun + self.budget.seconds

    def phase(self, totals: Totals, seconds: Seconds, again: bool) -> Iterator[Outcome]:
        """Visit the problems by depth, because a chain is raced against its parts. `again` is True where another phase
        follows."""
        depths = sorted({_depth(entry.problem) for entry in self.workload.entries})
        for depth in depths:
            entries = [entry for entry in self.workload.entries if _depth(entry.problem) == depth]
            deeper = [entry for entry in self.workload.entries if _depth(entry.problem) > depth]
            ordered = sorted(entries, key=self._stake, reverse=True)
            for outcome in self.engine.pay(self._visits(ordered, deeper, totals, seconds, again), self._tell):
                self._learn(outcome)
                yield outcome

    def seconds(self, entries: Sequence[Entry], at: int) -> float | None:
        """Return the time limit of a visit. With one visit at a time, it is the entry's share of the remaining time
        among itself and the later entries; with many, its share of the whole."""
        if self.deadline is None:
            return None
        left_s = max(0.0, self.deadline - time.monotonic()) * self.engine.width
        others = entries[at + 1 :] if self.engine.width == 1 else (*entries[:at], *entries[at + 1 :])
        return allocation.seconds_for([self._stake(one) for one in (entries[at], *others)], left_s)

    def _visits(
        self, entries: Sequence[Entry], deeper: Sequence[Entry], totals: Totals, seconds: Seconds, again: bool
    ) -> Iterator[Visit]:
        """Generate the visits of `entries`, reserving time for the `deeper` ones that follow."""
        reached = dict(zip(self.known, totals(self._standings(), self.budget.trials), strict=True))
        left = [entry for entry in entries if self.known[entry.problem] < reached[entry.problem]]
        behind = [entry for entry in deeper if self.known[entry.problem] < reached[entry.problem]]
        for at, entry in enumerate(left):
            if not self._is_over():
                following = left[at + 1].problem if at + 1 < len(left) else None
                share = seconds([*left, *behind], at)
                yield Visit(entry.problem, reached[entry.problem], share, self.deadline, following, again)

    def _is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _standings(self) -> list[Standing]:
        return [
            Standing(self.known[one.problem], self.spaces.get(one.problem, UNBOUNDED), self._stake(one))
            for one in self.workload.entries
        ]

    def _stake(self, entry: Entry) -> float:
        best = self.best[entry.problem]
        us = None if best is None else best.median_us
        return entry.count * (self._predicted[entry.problem] if us is None else us)

    def _learn(self, outcome: Outcome) -> None:
        self.known[outcome.problem] = outcome.known + outcome.measured
        self.spaces[outcome.problem] = outcome.space
        self.best[outcome.problem] = outcome.best
        self.wanted = sum(allocation.totals(self._standings(), self.budget.trials))

    def _tell(self, problem: Problem, progress: Progress) -> None:
        self.measured += max(0, progress.done - self.known[problem])
        self.known[problem] = progress.done
        wanted = None if self.budget.trials is None else self.wanted
        done = sum(self.known.values())
        self.watch(Step(done, wanted, problem, progress.row, progress.best, self._remaining_s()))

    def _remaining_s(self) -> float | None:
        """Estimate the remaining time from the pace of this run, limited by the budget."""
        now = time.monotonic()
        ends = [] if self.deadline is None else [max(0.0, self.deadline - now)]
        if self.budget.trials is not None and self.measured:
            left = max(0, self.wanted - sum(self.known.values()))
            ends.append(left * (now - self.begun) / self.measured)
        return min(ends, default=None)


def _of(config: generator.Config, rows: Iterable[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.config == config and row.correct]


def _depth(problem: Problem) -> int:
    return 1 + max(map(_depth, problem.parts)) if problem.parts else 0
