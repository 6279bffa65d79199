"""The tuning loop: recalls valid rows, measures the default and the neighbours' configs, then searches, and races the
fastest. Every trial is stored at once."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from qconv import generator
from qconv.device import Device
from qconv.device.compile import compiler_for
from qconv.errors import CompilerKilled, CompileTimeout
from qconv.generator import Config, Plan
from qconv.instances.choose import shipped as shipped_winners
from qconv.instances.choose.lookup import choose
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement, best_of, ranked
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import Child, Killed
from qconv.tuner.measure.protocol import RACED, protocol_for
from qconv.tuner.search.compile_ahead import Ahead
from qconv.tuner.search.strategies import DEFAULT, Space, Strategy, named
from qconv.tuner.workload import parts_of

log = logging.getLogger("qconv")

FINALISTS = 4  # configs per race that were not raced before
MOST_TURNS = 5  # races per config; racing stops when the leader has reached it
HINTS = 12


@dataclass(frozen=True)
class Progress:
    """The state after a trial, and once more after the races."""

    done: int
    total: int
    row: Measurement
    best: Measurement | None


@dataclass(frozen=True)
class Search:
    """How a problem is searched. No trial begins after `until`, by time.monotonic(). With `gain_percent`, no trial
    begins whose expected reduction of the best time is below that percentage."""

    trials: int
    timeout_s: float = 60.0
    seed: int = 0
    strategy: str = DEFAULT
    until: float | None = None
    gain_percent: float | None = None

    def is_worth(self, gain: float | None) -> bool:
        """True where a trial with this expected gain should begin. An unknown gain is worth a trial."""
        return self.gain_percent is None or gain is None or 100.0 * gain >= self.gain_percent

    @property
    def is_over(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until


@dataclass(frozen=True)
class Outcome:
    """The result of tuning one problem. `default`, and `looked_up`, the config that lookup would have chosen before,
    took part in the races that `best` won."""

    problem: Problem
    device: str
    target: str
    space: int
    measured: int  # configs measured in this run
    known: int  # valid rows from earlier runs
    failures: dict[str, int]
    default: Measurement | None
    best: Measurement | None
    of_families: dict[str, Measurement]  # the best row of each family
    strategy: str  # name of the search strategy
    looked_up: Measurement | None = None


Watch = Callable[[Progress], None]


def tune(
    problem: Problem,
    device: Device,
    database: Database,
    *,
    trials: int,
    seconds: float | None = None,
    timeout_s: float = 60.0,
    seed: int = 0,
    strategy: str = DEFAULT,
    gain_percent: float | None = None,
    shipped: Layered | None = None,
    child: Child | None = None,
    watch: Watch = lambda progress: None,
) -> Outcome:
    """Tune a problem until `trials` configs have been measured. Valid rows of earlier runs count; the configs chosen
    without tuning are measured in any case. No trial begins after `seconds`, or when it is expected to shorten the best
    time by less than `gain_percent`. A chain and each of its parts get equal shares of the time.

    The default and the config that lookup uses now are measured first, so that tuning never gives a slower answer than
    no tuning. Every row is stored as soon as it is known, so an interruption loses nothing. `shipped` is the layer
    below the database, by default the shipped winners. `child` is a running worker to reuse, because starting one takes
    seconds.
    """
    until = None if seconds is None else time.monotonic() + seconds
    search = Search(trials, timeout_s, seed, strategy, until, gain_percent)
    # Reject an unknown name before a worker starts.
    named(strategy)
    own = Child(device, protocol_for(device), timeout_s) if child is None else contextlib.nullcontext(child)
    with own as child:
        child.start()
        problems = list(dict.fromkeys([*parts_of(problem), problem]))
        for at, one in enumerate(problems):
            own_search = replace(search, until=_share(until, len(problems) - at))
            outcome = tune_alone(one, device, database, child, own_search, shipped, watch)
    return outcome


def _share(until: float | None, problems: int) -> float | None:
    """Return the end of the first of `problems` equal shares of the time that is left."""
    if until is None:
        return None
    now = time.monotonic()
    return now + max(0.0, until - now) / problems


def tune_alone(
    problem: Problem,
    device: Device,
    database: Database,
    child: Child,
    search: Search,
    shipped: Layered | None = None,
    watch: Watch = lambda progress: None,
    plans: Sequence[Plan] | None = None,
) -> Outcome:
    """Tune a problem without its parts. A chain is raced against its parts as they are known now. `plans` is the
    enumerated space, if the caller has it."""
    begin = named(search.strategy)
    below = Layered([shipped_winners.layer(device.name)]) if shipped is None else shipped
    layers = Layered([database, below])
    default = generator.default(problem, device.target).config
    looked_up = choose(problem, device, layers).plan.config
    if plans is None:
        plans, _ = generator.space(problem, device.target)
    others = _unfused(problem, device, layers)
    run = Run(problem, device, database, child)
    run.recall([*plans, *others])
    known = len(run.rows)
    for other in others:
        if other.config not in run.rows:
            run.measure(run.candidate(other), None)
    first = [default, looked_up, *_hints(problem, device, layers)]
    strategy = begin(Space(problem, plans, first, search.seed))
    for config, row in run.rows.items():
        strategy.tell(config, row.median_us)
    # The default and the looked-up config may have changed since earlier runs. They are measured whatever the number of
    # rows.
    with_untuned = len(run.rows) + len({default, looked_up} - run.rows.keys())
    total = max(min(search.trials, len(plans)) + len(others), with_untuned if search.trials else 0)
    run.search(strategy, total, search, watch)
    if len(run.rows) > known or not run.is_settled([default, looked_up]):
        run.race([default, looked_up])
        if (best := best_of(run.rows.values())) is not None:
            watch(Progress(len(run.rows), total, best, best))
    rows = run.rows
    return Outcome(
        problem=problem,
        device=device.name,
        target=device.target.name,
        space=len(plans) + len(others),
        measured=len(rows) - known,
        known=known,
        failures=dict(Counter(row.outcome for row in rows.values() if not row.correct)),
        default=rows.get(default),
        # Not the database's best, which may have been measured with an older template.
        best=best_of(rows.values()),
        of_families=_of_families(rows),
        strategy=search.strategy,
        looked_up=rows.get(looked_up),
    )


def are_of_one_race(rows: Iterable[Measurement]) -> bool:
    """True where the rows are of one race, so that their times can be compared to within a per cent. Rows of one race
    share one time of creation, see `race`."""
    return len({row.created_at if is_raced(row) else row.key for row in rows}) <= 1


def is_raced(row: Measurement) -> bool:
    return row.protocol is not None and row.protocol.get("phase") == RACED


class Run:
    """A problem during its tuning: its candidates, each rendered once, and its rows, each stored at once."""

    def __init__(self, problem: Problem, device: Device, database: Database, child: Child) -> None:
        self._problem = problem
        self._device = device
        self._database = database
        self._child = child
        self._toolchain = compiler_for(device.target).toolchain
        self._candidates: dict[Config, Candidate] = {}
        self.rows: dict[Config, Measurement] = {}

    def candidate(self, plan: Plan) -> Candidate:
        if plan.config not in self._candidates:
            self._candidates[plan.config] = Candidate.of(plan)
        return self._candidates[plan.config]

    def recall(self, plans: Sequence[Plan]) -> None:
        """Load the rows of earlier runs that are still valid: same toolchain and same source. Timeouts are tried again.
        A config may have rows of several sources, measured with different versions of this package."""
        where = {"device": self._device.name, "target": self._device.target.name}
        rows = self._database.measurements(problem=self._problem, **where)
        known: dict[Config, dict[str, Measurement]] = {}
        for row in rows:
            if row.toolchain == self._toolchain and row.outcome != "timeout":
                known.setdefault(row.config, {})[row.digest] = row
        for plan in plans:
            of_sources = known.get(plan.config, {})
            if of_sources and (digest := self.candidate(plan).digest) in of_sources:
                self.rows[plan.config] = of_sources[digest]

    def measure(self, candidate: Candidate, best_us: float | None) -> Measurement:
        try:
            return self._store(self._child.measure(candidate, best_us))
        except Killed as death:
            return self._without_verdict(candidate, "runtime", death)

    def search(self, strategy: Strategy, total: int, search: Search, watch: Watch) -> None:
        """Measure until there are `total` rows, or nothing in the space is worth a trial. The next candidates are
        compiled in the meantime."""
        exhausted = False
        with Ahead(self._toolchain, search.timeout_s) as ahead:
            while True:
                while not (ahead.full or exhausted or search.is_over) and len(self.rows) + len(ahead) < total:
                    if (proposed := strategy.ask()) is None or not search.is_worth(strategy.gain):
                        exhausted = True
                        break
                    ahead.submit(self.candidate(proposed))
                if not ahead:
                    return
                candidate, refused = ahead.next()
                if refused is None:
                    row = self.measure(candidate, self._best_us())
                elif isinstance(refused, CompilerKilled):
                    row = self._without_verdict(candidate, "compile", refused)
                else:
                    outcome = "timeout" if isinstance(refused, CompileTimeout) else "compile"
                    row = self._store(candidate.failed(self._device, self._toolchain, outcome, str(refused)))
                strategy.tell(row.config, row.median_us)
                watch(Progress(len(self.rows), total, row, best_of(self.rows.values())))

    def is_settled(self, untuned: Sequence[Config]) -> bool:
        """True where the best row and the rows of the untuned configs are of one race."""
        best = best_of(self.rows.values())
        beside = [self.rows[config] for config in untuned if config in self.rows and self.rows[config].correct]
        return best is None or are_of_one_race([best, *beside])

    def race(self, untuned: Sequence[Config]) -> None:
        """Race until the fastest row took part in the last race, together with the untuned configs: see `protocol`."""
        turns = Counter[Config]()
        last: list[Config] = []
        while True:
            fastest = sorted((row for row in self.rows.values() if row.correct), key=lambda row: row.median_us or 0.0)
            order = [row.config for row in fastest]
            # Ties go to the simpler config, which need not be the fastest.
            ahead = [*order[:1], *(row.config for row in [best_of(fastest)] if row is not None)]
            if len(order) < 2 or all(config in last or turns[config] == MOST_TURNS for config in ahead):
                return
            # The winner of the last race runs again, because times of different races cannot be compared. So do the
            # default and the looked-up config, so that a speed-up is a ratio of times of one race.
            leader = [config for config in order if config in last][:1]
            fresh = [config for config in order if not turns[config]][:FINALISTS]
            last = list(dict.fromkeys([*leader, *(config for config in order if config in untuned), *ahead, *fresh]))
            results = self._child.race([self._candidates[config] for config in last])
            if not results:
                return
            for row in results:
                self._store(row)
            turns.update(last)

    def _without_verdict(self, candidate: Candidate, outcome: str, death: Exception) -> Measurement:
        """Record a trial without a result. It counts in this run but is not stored, so the next run tries the config
        again."""
        log.warning("%s: %s: not measured, the same command tries it again", candidate.config, death)
        self.rows[candidate.config] = candidate.failed(self._device, self._toolchain, outcome, str(death))
        return self.rows[candidate.config]

    def _store(self, row: Measurement) -> Measurement:
        self._database.add(row)
        self.rows[row.config] = row
        return row

    def _best_us(self) -> float | None:
        """Return the best time measured in full, with which candidates are compared."""
        first = next(iter(ranked(self.rows.values())), None)
        return None if first is None or first.screened else first.median_us


def _of_families(rows: dict[Config, Measurement]) -> dict[str, Measurement]:
    groups: dict[str, list[Measurement]] = {}
    for config, row in rows.items():
        groups.setdefault(config.family, []).append(row)
    found = {family: best_of(group) for family, group in sorted(groups.items())}
    return {family: best for family, best in found.items() if best is not None}


def _unfused(problem: Problem, device: Device, layers: Layered) -> list[Plan]:
    """Return what a chain's fused kernels compete with: the winners of its first convolution and of the rest."""
    if not problem.parts:
        return []
    return [generator.unfused_plan(problem, device.target, lambda one: choose(one, device, layers).plan.config)]


def _hints(problem: Problem, device: Device, layers: Layered) -> list[Config]:
    """Return the fastest configs of older templates, which are likely to be fast still."""
    rows = layers.measurements(problem=problem, device=device.name, target=device.target.name)
    return list(dict.fromkeys(row.config for row in ranked(rows)))[:HINTS]
