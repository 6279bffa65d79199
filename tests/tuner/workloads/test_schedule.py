"""A workload on a simulated device: the distribution of trials, the cost of a second run, and the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import pytest

from qconv import FusedConv2d, generator
from qconv.device.compile import compiler_for
from qconv.generator import Config
from qconv.op import Problem
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.search import compile_ahead as ahead
from qconv.tuner.search import tune
from qconv.tuner.search.tune import Outcome, Search
from qconv.tuner.workload import Entry, Place, Workload
from qconv.tuner.workloads import schedule
from qconv.tuner.workloads.allocation import FIRST_TRIALS, Budget
from qconv.tuner.workloads.result import Result, Station, Summary, results
from qconv.tuner.workloads.schedule import OneDevice, Step, Told, Visit, tune_workload
from tests.tuner.measure.test_evaluate import CPU, Recorded

# Equal amounts of work: the simulated device takes four times as long for the first.
SLOW, FAST, TINY = Conv2d(1, 8, 8, 8, 16, 3, 3, pad=1), Conv2d(1, 8, 8, 8, 16, 3, 3), Conv2d(1, 3, 3, 4, 4, 2, 2)
NET = Workload.of("net", [Place("a", SLOW), Place("b", FAST), Place("c", SLOW), Place("d", SLOW)])
STATION = Station.of(CPU)
SPACE = [plan.config for plan in generator.space(FAST, CPU.target)[0]]


class Scaled(Recorded):
    """Times that also depend on the problem; it counts its calls."""

    toolchain = compiler_for(CPU.target).toolchain
    asked: ClassVar[Counter[str]] = Counter()

    def measure(self, candidate: Candidate, best_us: float | None = None) -> Measurement:
        Scaled.asked["trials"] += 1
        return self._row(candidate.problem, candidate.config, us_of(candidate.problem, candidate.config), "alone")

    def race(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        Scaled.asked["races"] += 1
        at = datetime.now(UTC)
        return [self._row(c.problem, c.config, us_of(c.problem, c.config), "raced", at) for c in candidates]

    def _row(self, problem: Problem, config: Config, us: float, phase: str, at: datetime | None = None) -> Measurement:
        return Measurement(
            *(problem, config, CPU.name, "cpu", self.toolchain, digest_of(problem, config), "correct"),
            times_us=(us,),
            median_us=us,
            protocol={"phase": phase},
            created_at=at or datetime.now(UTC),
        )

    def stop(self) -> None: ...


@lru_cache(maxsize=4096)
def digest_of(problem: Problem, config: Config) -> str:
    return generator.render_kernels(generator.plan(problem, config, CPU.target)).digest


def us_of(problem: Problem, config: Config) -> float:
    """Return 100 to 110 us, by the config; for FAST a quarter of that."""
    us = 100.0 + crc32(config.as_json().encode()) % 1000 / 100
    return us / 4 if problem == FAST else us


@pytest.fixture(autouse=True)
def scaled(monkeypatch: pytest.MonkeyPatch) -> type[Scaled]:
    monkeypatch.setattr(schedule, "Child", Scaled)
    monkeypatch.setattr(ahead, "build", lambda *_: None)
    monkeypatch.setattr(Scaled, "asked", Counter())
    return Scaled


def tuned(rows: Database, budget: Budget, watch: Any = lambda step: None, workload: Workload = NET) -> list[Result]:
    with OneDevice(CPU, rows, Search(0)) as engine:
        tune_workload(workload, engine, rows, budget, watch)
        return results(workload, engine.station, rows)


@pytest.fixture
def rows(tmp_path: Path) -> Any:
    with Database.open(tmp_path / "t.sqlite") as opened:
        yield opened


def test_trials_go_where_the_measured_time_is(rows: Database) -> None:
    """Three times SLOW takes twelve times as long as FAST: of 40 trials, it gets all but FAST's first ones."""
    slow, fast = tuned(rows, Budget(trials=20))
    assert (slow.trials, fast.trials) == (40 - FIRST_TRIALS, FIRST_TRIALS)
    assert slow.entry.count == 3
    assert (slow.is_raced, fast.is_raced) == (True, True)
    assert slow.tuned_us is not None
    assert slow.default_us is not None
    found = [row for row in rows.measurements(problem=SLOW) if row.correct]
    assert slow.tuned_us == pytest.approx(min(us_of(SLOW, row.config) for row in found), rel=0.01)
    assert slow.default_us == pytest.approx(us_of(SLOW, generator.default(SLOW, CPU.target).config))


def test_a_second_run_costs_nothing_and_a_larger_budget_goes_on(rows: Database, scaled: type[Scaled]) -> None:
    first = tuned(rows, Budget(trials=10))
    scaled.asked.clear()
    assert tuned(rows, Budget(trials=10)) == first
    assert scaled.asked == {}
    more = tuned(rows, Budget(trials=13))
    assert scaled.asked["trials"] == 6
    assert sum(one.trials for one in more) == 26


def test_visits_are_paid_for_what_is_left_only(rows: Database) -> None:
    paid: list[Problem] = []

    class Counting(OneDevice):
        def pay(self, visits: Iterable[Visit], tell: Told) -> Iterator[Outcome]:
            for outcome in super().pay(visits, tell):
                paid.append(outcome.problem)
                yield outcome

    for trials, wanted in ((8, [SLOW, FAST]), (8, []), (10, [SLOW])):
        paid.clear()
        with Counting(CPU, rows, Search(0)) as engine:
            tune_workload(NET, engine, rows, Budget(trials=trials))
        assert paid == wanted


def test_while_one_is_measured_the_first_kernel_of_the_next_compiles(
    rows: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[tuple[Problem, list[Problem]]] = []
    monkeypatch.setattr(
        schedule,
        "compile_in_background",
        lambda plan, toolchain, limit_s: compiled.append((plan.problem, [row.problem for row in rows.measurements()])),
    )
    tuned(rows, Budget(trials=8))
    assert compiled == [(FAST, [])]  # before a row of SLOW


def test_what_is_visited_twice_is_enumerated_once(rows: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Problem] = []
    whole = generator.space

    def counted(problem: Problem, target: Any, likely: bool = False) -> Any:
        asked.extend([] if likely else [problem])  # a default is searched for among the likely
        return whole(problem, target, likely)

    monkeypatch.setattr(generator, "space", counted)
    with OneDevice(CPU, rows, Search(0)) as engine:
        outcomes = tune_workload(NET, engine, rows, Budget(trials=20))
    assert [outcome.problem for outcome in outcomes] == [SLOW, FAST, SLOW]
    assert asked == [SLOW, FAST]


class Interrupted(Exception): ...


@pytest.mark.turns
@pytest.mark.parametrize("after", [1, 8, 16, 23])
def test_what_is_interrupted_goes_on(after: int, rows: Database, scaled: type[Scaled]) -> None:
    """After 8 and 16 trials a problem has its full number, and was not raced."""

    def interrupt(step: Step) -> None:
        if step.done == after:
            raise Interrupted

    with pytest.raises(Interrupted):
        tuned(rows, Budget(trials=12), interrupt)
    assert scaled.asked["trials"] == after == len(rows.measurements())
    found = tuned(rows, Budget(trials=12))
    assert scaled.asked["trials"] == 24 == sum(one.trials for one in found)
    assert all(one.is_raced for one in found)


def test_a_watcher_is_told_the_count_the_time_and_the_best(rows: Database) -> None:
    steps: list[Step] = []
    tuned(rows, Budget(trials=12), steps.append)
    assert [step.done for step in steps if step.row.protocol == {"phase": "alone"}] == list(range(1, 25))
    assert {step.trials for step in steps} == {24}
    assert all(step.remaining_s is not None for step in steps)
    assert steps[-1].remaining_s == 0.0
    for step in steps:
        assert step.best is not None
        assert step.best.problem == step.row.problem == step.problem


def test_a_small_space_is_finished_and_its_trials_go_elsewhere(rows: Database) -> None:
    net = Workload.of("net", [Place("t", TINY), Place("s", SLOW)])
    size = len(generator.space(TINY, CPU.target)[0])
    tiny, slow = tuned(rows, Budget(trials=size + 10), workload=net)
    assert (tiny.trials, slow.trials) == (min(size, FIRST_TRIALS), 2 * size + 20 - min(size, FIRST_TRIALS))


def test_the_time_is_the_limit(rows: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials themselves take time: a second each."""
    passed = [1000.0]
    monkeypatch.setattr(tune.time, "monotonic", lambda: passed[0])
    honest = Scaled.measure

    def slowly(self: Scaled, candidate: Candidate, best_us: float | None = None) -> Measurement:
        passed[0] += 1.0
        return honest(self, candidate, best_us)

    monkeypatch.setattr(Scaled, "measure", slowly)
    steps: list[Step] = []
    monkeypatch.setattr(ahead.Ahead, "full", property(lambda self: len(self) >= 1))
    slow, fast = tuned(rows, Budget(seconds=55.0), steps.append)
    assert slow.trials + fast.trials == pytest.approx(55, abs=4)
    # 39 s remain after the first trials of both; SLOW gets twelve parts of them and FAST one.
    assert fast.trials == pytest.approx(FIRST_TRIALS + 39 / 13, abs=2)
    assert steps[0].trials is None
    assert steps[0].remaining_s == pytest.approx(54.0)


@pytest.mark.parametrize("set_by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_neither_ends_nor_prolongs_a_budget(
    set_by: float, rows: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial takes a second, and from the third one on the wall clock is an hour off."""
    passed, trials = [1000.0], [0]
    monkeypatch.setattr(schedule.time, "monotonic", lambda: passed[0])
    monkeypatch.setattr(schedule.time, "time", lambda: passed[0] + (set_by if trials[0] >= 3 else 0.0))
    honest = Scaled.measure

    def slowly(self: Scaled, candidate: Candidate, best_us: float | None = None) -> Measurement:
        passed[0], trials[0] = passed[0] + 1.0, trials[0] + 1
        return honest(self, candidate, best_us)

    monkeypatch.setattr(Scaled, "measure", slowly)
    monkeypatch.setattr(ahead.Ahead, "full", property(lambda self: len(self) >= 1))
    steps: list[Step] = []
    tuned(rows, Budget(seconds=25.0), steps.append)
    assert trials[0] == pytest.approx(25, abs=4)
    left = [step.remaining_s for step in steps]
    assert left[:5] == pytest.approx([24.0, 23.0, 22.0, 21.0, 20.0])


def test_a_visit_without_time_left_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """No seconds left must not mean an unlimited number of seconds."""
    monkeypatch.setattr(schedule.time, "monotonic", lambda: 1000.0)
    assert Visit(FAST, 5, 0.0).search(Search(0)).until == 1000.0
    assert Visit(FAST, 5, 9.0, 1000.0).search(Search(0)).until == 1000.0
    assert Visit(FAST, 5).search(Search(0)).until is None


def test_parts_are_known_before_the_chain_and_not_tuned_by_it(rows: Database) -> None:
    first, second = Conv2d(1, 4, 4, 8, 8, 3, 3, pad=1), Conv2d(1, 4, 4, 8, 8, 1, 1)
    pair = FusedConv2d(first, second)
    order: list[Any] = []
    net = Workload.of("net", [Place("f", pair, "fusion"), Place("a", first), Place("b", second)])
    found = tuned(rows, Budget(trials=6), lambda step: order.append(step.problem), net)
    assert {one.entry.role for one in found} == {"layer", "fusion"}
    assert set(order[: order.index(pair)]) == {first, second}
    raced = next(one for one in found if one.entry.problem == pair)
    assert raced.trials >= 1
    families = {row.config.family for row in rows.measurements(problem=pair)}
    assert "unfused" in families


@pytest.mark.parametrize(("width", "seconds"), [(1, [20.0, 30.0, 60.0]), (2, [40.0, 40.0, 120.0])])
def test_a_chain_has_its_share_of_the_time(
    width: int, seconds: list[float], rows: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts come before it, and must not take all the time. Each has 100 configs, and takes 10 us. Each of two
    workers has the time."""
    monkeypatch.setattr(schedule.time, "monotonic", lambda: 1000.0)
    first, second = Conv2d(1, 4, 4, 8, 8, 3, 3, pad=1), Conv2d(1, 4, 4, 8, 8, 1, 1)
    pair = FusedConv2d(first, second)
    visited: list[Visit] = []

    class MadeUp:
        station = STATION

        def __init__(self) -> None:
            self.width = width

        def pay(self, visits: Iterable[Visit], tell: Told) -> Iterator[Outcome]:
            for visit in visits:
                visited.append(visit)
                counts = {"space": 100, "measured": visit.trials, "known": 0, "failures": {}}
                best = replace(Scaled()._row(FAST, SPACE[0], 10.0, "raced"), problem=visit.problem)
                more: dict[str, Any] = {"default": None, "best": best, "of_families": {}, "strategy": "none"}
                yield Outcome(visit.problem, CPU.name, "cpu", **counts, **more)

    net = Workload.of("net", [Place("f", pair, "fusion"), Place("a", first), Place("b", second)])
    tune_workload(net, MadeUp(), rows, Budget(seconds=60.0))
    assert [visit.problem == pair for visit in visited] == [False, False, True] * 2
    # The clock stands still: a third of the rest, a half, and all; of both workers' time a third, and all.
    assert [visit.seconds for visit in visited[3:]] == pytest.approx(seconds)


def test_a_summary_adds_what_was_raced_as_often_as_it_is_computed() -> None:
    def result(count: int, role: Any, default: float | None, best: float | None, raced: bool = True) -> Result:
        return Result(Entry(SLOW, count, ("a",) * count, role), 8, default, best, raced, "c")

    found = [result(3, "layer", 10.0, 5.0), result(2, "layer", 4.0, 4.0), result(1, "fusion", 9.0, 1.0)]
    assert Summary.of(found) == Summary(timed=5, layers=5, default_us=38.0, tuned_us=23.0)
    others = [result(7, "layer", 10.0, 5.0, raced=False), result(1, "layer", None, None)]
    assert Summary.of([*found, *others]) == Summary(timed=5, layers=13, default_us=38.0, tuned_us=23.0)
    assert [one.speed_up for one in (*found, *others)] == [2.0, 1.0, 9.0, None, None]


def test_rows_of_older_templates_count_for_nothing(rows: Database, scaled: type[Scaled]) -> None:
    tuned(rows, Budget(trials=10))
    with Database.open("sqlite://") as older:
        for row in rows.measurements():
            older.add(replace(row, digest="0" * 16))
        scaled.asked.clear()
        assert sum(one.trials for one in results(NET, STATION, older)) == 0
        tuned(older, Budget(trials=10))
        assert scaled.asked["trials"] == 20
        best = best_of(row for row in older.measurements(problem=SLOW) if row.digest != "0" * 16)
        assert results(NET, STATION, older)[0].tuned_us == (best.median_us if best else None)


def test_rows_of_older_templates_count_for_nothing_beside_those_of_today(rows: Database) -> None:
    """This holds too if the tuning after an update was interrupted, and its first rows are the fastest already."""
    tuned(rows, Budget(trials=10))
    default = generator.default(SLOW, CPU.target).config
    with Database.open("sqlite://") as older:
        for row in rows.measurements():
            if (row.problem, row.config) == (SLOW, default):
                older.add(row)  # a default that was added since
                continue
            before = {"created_at": row.created_at - timedelta(days=1), "times_us": (1e6,), "median_us": 1e6}
            older.add(replace(row, digest="0" * 16, **before))  # type: ignore[arg-type]
        slow, fast = results(NET, STATION, older)
        assert (slow.trials, slow.default_us, slow.is_raced) == (1, us_of(SLOW, default), True)
        assert fast.trials == 0
        assert [one.trials for one in tuned(older, Budget(trials=10))] == [12, 8]


def test_rows_of_two_versions_do_not_add_up(rows: Database) -> None:
    """Neither is the older: each measured the same configs."""
    (slow, fast) = tuned(rows, Budget(trials=10))
    for row in rows.measurements():
        later = {"created_at": row.created_at + timedelta(seconds=1), "times_us": (1e6,), "median_us": 1e6}
        rows.add(replace(row, digest="0" * 16, **later))  # type: ignore[arg-type]
    assert results(NET, STATION, rows) == [slow, fast]
