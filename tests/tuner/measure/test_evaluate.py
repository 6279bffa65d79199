"""How often a candidate is timed, and that luck does not win: with given times instead of measured ones."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from qconv import FusedConv2d, generator
from qconv.cli import tuning
from qconv.device import open_device
from qconv.device.cache import Binary
from qconv.device.compile import compiler_for
from qconv.errors import CompileError, KernelMissing
from qconv.generator import Config, Plan, Source
from qconv.instances.choose import Choice
from qconv.instances.load.pair import Runnable
from qconv.op import Problem
from qconv.ops import registry
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement, complexity
from qconv.tune_db.text import TextLayer, dump
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.evaluate import evaluate, race
from qconv.tuner.measure.protocol import WALL_CLOCK
from qconv.tuner.measure.verification import InputSets
from qconv.tuner.search import compile_ahead as ahead
from qconv.tuner.search import tune

PROBLEM = Conv2d(1, 3, 3, 4, 4, 2, 2)
MANY = Conv2d(1, 3, 3, 5, 9, 2, 2)  # more configs than one race has room for
CPU = open_device("cpu")
SPACE = generator.space(PROBLEM, CPU.target)[0]
CANDIDATE = Candidate.of(generator.default(PROBLEM, CPU.target))


class Told(InputSets):
    """Takes its times from a list."""

    def __init__(self, *times: float) -> None:
        super().__init__(PROBLEM, CPU, registry.draw(PROBLEM, 1))
        self.times = list(times)

    def replay(self, runnable: Runnable) -> Callable[[], float]:
        return lambda: self.times.pop(0)


def told(*times: float, best_us: float | None) -> Measurement:
    input_sets = Told(*times)
    row = evaluate(CANDIDATE, input_sets, WALL_CLOCK, best_us)
    assert input_sets.times == []
    assert row.protocol is not None
    assert row.protocol["repeats"] == len(row.times_us)
    assert row.screened == (row.protocol["phase"] == "screened")
    return row


def test_what_is_near_the_best_is_timed_in_full() -> None:
    assert told(99.0, *range(1, 10), best_us=None).median_us == 5.0
    assert told(49.0, 12.0, 12.0, 12.0, *range(1, 10), best_us=10.0).median_us == 5.0


def test_what_is_far_from_the_best_is_screened_only() -> None:
    row = told(30.0, 12.0, 14.0, 13.0, best_us=10.0)
    assert row.screened
    assert row.median_us == 13.0


def test_one_slow_repeat_screens_out_nothing() -> None:
    assert told(49.0, 12.0, 90.0, 12.0, *range(1, 10), best_us=10.0).median_us == 5.0
    assert told(49.0, 9.0, 12.4, 90.0, *range(1, 10), best_us=10.0).median_us == 5.0


def test_what_is_hopeless_is_given_up_after_one_replay() -> None:
    row = told(51.0, best_us=10.0)
    assert row.screened
    assert row.times_us == (51.0,)


def test_a_race_takes_turns() -> None:
    candidates = [Candidate.of(plan) for plan in generator.space(PROBLEM, CPU.target)[0][:2]]
    rows = race(
        candidates, Told(99.0, 99.0, *itertools.chain(*zip(range(1, 10), range(11, 20), strict=True))), WALL_CLOCK
    )
    assert [(row.config, row.median_us) for row in rows] == [(candidates[0].config, 5.0), (candidates[1].config, 15.0)]
    assert all(row.protocol is not None and row.protocol["phase"] == "raced" for row in rows)
    assert tune.are_of_one_race(rows)


class Recorded:
    """A stand-in for the worker. Alone, one config in three is lucky by a tenth; in a race, all have their true times,
    multiplied by factors for the first race, for the second, and for all others."""

    slowness: tuple[float, float, float] = (1.0, 1.0, 1.0)
    toolchain = "told"

    def __init__(self, *_: object) -> None:
        self.races = 0
        self.measured: list[Config] = []

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def measure(self, candidate: Candidate, best_us: float | None = None) -> Measurement:
        config = candidate.config
        self.measured.append(config)
        us = true_us(config)
        return self._row(candidate.problem, config, us * 0.9 if len(str(config)) % 3 == 0 else us, "alone")

    def race(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        slowness, at = self.slowness[min(self.races, 2)], datetime.now(UTC)
        self.races += 1
        return [self._row(c.problem, c.config, true_us(c.config) * slowness, "raced", at) for c in candidates]

    def _row(self, problem: Problem, config: Config, us: float, phase: str, at: datetime | None = None) -> Measurement:
        return Measurement(
            problem=problem,
            config=config,
            device=CPU.name,
            target="cpu",
            toolchain=self.toolchain,
            digest=generator.render(generator.plan(problem, config, CPU.target)).digest,
            outcome="correct",
            times_us=(us,),
            median_us=us,
            protocol={"phase": phase},
            created_at=at or datetime.now(UTC),
        )


def true_us(config: Config) -> float:
    values = [value for value in config.as_dict().values() if isinstance(value, int)]
    return 100.0 + sum(value * weight for value, weight in zip(values, (0.11, 0.23, 0.05, 1.7, 2.9, 0.7), strict=True))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "Child", Recorded)
    monkeypatch.setattr(ahead, "build", lambda *_: None)


@pytest.mark.usefixtures("recorded")
def test_the_winner_is_raced_and_no_accident(tmp_path: Path) -> None:
    size = len(generator.space(PROBLEM, CPU.target)[0])
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune(PROBLEM, CPU, database, trials=1000)
        assert outcome.measured == outcome.space == size
        rows = database.measurements()
        assert database.best(PROBLEM, CPU.name, "cpu") == outcome.best
    assert outcome.best is not None
    assert outcome.best.protocol == {"phase": "raced"}
    truth = min(true_us(row.config) for row in rows)
    assert outcome.best.median_us == pytest.approx(truth, rel=0.01)


@pytest.mark.turns
@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("slowness", [(1.0, 1.0, 1.0), (1.3, 1.0, 0.8), (1.1, 1.4, 1.4)])
def test_times_of_two_races_are_not_compared(
    slowness: tuple[float, float, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader and the default run in every race: the winner and its speed-up come from one race."""
    monkeypatch.setattr(Recorded, "slowness", slowness)
    default = generator.default(MANY, CPU.target).config
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune(MANY, CPU, database, trials=1000)
        rows = {row.config: row for row in database.measurements()}
    assert outcome.best is not None
    assert outcome.default is not None
    truth = min(true_us(config) for config in rows)
    assert true_us(outcome.best.config) == pytest.approx(truth, rel=0.01)
    assert outcome.default.config == default != outcome.best.config
    assert outcome.default == rows[default]
    assert outcome.default.protocol == outcome.best.protocol == {"phase": "raced"}
    assert tune.are_of_one_race([outcome.default, outcome.best])
    ratio = true_us(default) / true_us(outcome.best.config)
    assert outcome.default.median_us / outcome.best.median_us == pytest.approx(ratio)  # type: ignore[operator]


@pytest.mark.usefixtures("recorded")
def test_the_simplest_of_those_that_tie_was_raced_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "true_us", lambda config: 100.0)
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune(MANY, CPU, database, trials=1000)
        rows = database.measurements()
    assert outcome.best is not None
    assert complexity(outcome.best.config) == min(complexity(row.config) for row in rows)
    assert outcome.best.protocol == {"phase": "raced"}


@pytest.mark.usefixtures("recorded")
def test_rows_of_another_toolchain_source_or_device_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are measured again; rows that are really the same are not."""
    toolchain = compiler_for(CPU.target).toolchain
    monkeypatch.setattr(Recorded, "toolchain", toolchain)
    configs = [plan.config for plan in generator.space(PROBLEM, CPU.target)[0]]
    good = {config: Recorded()._row(PROBLEM, config, 1.0, "alone") for config in configs}
    reason = {"times_us": (), "median_us": None, "reason": "a test", "protocol": None}
    others = [
        replace(good[configs[0]], toolchain=f"{toolchain}.1"),
        replace(good[configs[1]], digest="another"),
        replace(good[configs[2]], device="another"),
        replace(good[configs[3]], target="cpu.sm_80"),
        replace(good[configs[4]], outcome="timeout", **reason),
    ]
    child = Recorded()
    with Database.open(tmp_path / "t.sqlite") as database:
        for row in (*others, good[configs[5]]):
            database.add(row)
        outcome = tune.tune(PROBLEM, CPU, database, trials=1000, child=child)  # type: ignore[arg-type]
    assert (outcome.known, outcome.measured) == (1, len(configs) - 1)
    assert set(child.measured) == set(configs) - {configs[5]}


def test_rows_of_other_versions_of_the_package_hide_none_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two colleagues share a database, one of them with older templates: each continues with their own rows."""
    monkeypatch.setattr(Recorded, "toolchain", compiler_for(CPU.target).toolchain)
    child = Recorded()
    with Database.open(tmp_path / "t.sqlite") as database:
        tune.tune(PROBLEM, CPU, database, trials=6, child=child)  # type: ignore[arg-type]
        for row in database.measurements():
            database.add(replace(row, digest="another"))
        child.measured.clear()
        again = tune.tune(PROBLEM, CPU, database, trials=6, child=child)  # type: ignore[arg-type]
    assert (again.known, again.measured, child.measured) == (6, 0, [])


@pytest.mark.usefixtures("recorded")
def test_the_strategy_that_is_named_proposes(tmp_path: Path) -> None:
    """After the default, which every strategy measures first."""
    default = generator.default(MANY, CPU.target).config
    order = [default, *(plan.config for plan in generator.space(MANY, CPU.target)[0] if plan.config != default)]
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune(MANY, CPU, database, trials=6, strategy="cheapest")
        assert {row.config for row in database.measurements()} == set(order[:6])
        with pytest.raises(ValueError, match="the search strategy 'best' is not known"):
            tune.tune(MANY, CPU, database, trials=7, strategy="best")
    assert outcome.strategy == "cheapest"


@pytest.mark.usefixtures("recorded")
def test_a_compile_failure_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = generator.space(PROBLEM, CPU.target)[0][1].config

    def build(source: Source, plan: Plan, *_: object) -> Binary | None:
        if plan.config == refused:
            raise CompileError("line 7: no")
        return None

    monkeypatch.setattr(ahead, "build", build)
    seen: list[Any] = []
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune(PROBLEM, CPU, database, trials=1000, watch=seen.append)
        failed = [row for row in database.measurements() if not row.correct]
    assert outcome.failures == {"compile": 1}
    assert [(row.config, row.outcome, row.reason) for row in failed] == [(refused, "compile", "line 7: no")]
    # The last report is the winner's time in the races, which is the printed one.
    assert [progress.done for progress in seen] == [*range(1, outcome.space + 1), outcome.space]
    assert seen[-1].row == seen[-1].best == outcome.best


def test_where_compiling_is_forbidden_nothing_is_compiled_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "Child", Recorded)
    monkeypatch.setenv("QCONV_NO_COMPILE", "1")
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path))
    with Database.open(tmp_path / "t.sqlite") as database, pytest.raises(KernelMissing, match="QCONV_NO_COMPILE"):
        tune.tune(PROBLEM, CPU, database, trials=5)


@pytest.mark.parametrize("later_s", [0, 1])
def test_a_speed_up_is_of_one_race(later_s: int, capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    one, two, three = [plan.config for plan in generator.space(PROBLEM, CPU.target)[0][:3]]
    best = Recorded()._row(PROBLEM, one, 80.0, "raced", at)
    default = Recorded()._row(PROBLEM, two, 100.0, "raced", at + timedelta(seconds=later_s))
    looked_up = Recorded()._row(PROBLEM, three, 90.0, "raced", at)
    given = (PROBLEM, CPU.name, "cpu", 3, 3, 0, {}, default, best, {}, "cheapest", looked_up)
    tuning._print_outcome(tune.Outcome(*given), "t.sqlite")
    shown = capsys.readouterr().out
    assert "1.12x the speed of what lookup gave (90.00 us)" in shown
    assert ("1.25x the speed of the untuned default (100.00 us)" in shown) == (later_s == 0)
    assert ("the untuned default, which was not raced with it: 100.00 us" in shown) == (later_s == 1)


def test_times_taken_alone_are_of_no_race() -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    rows = [Recorded()._row(PROBLEM, plan.config, 80.0, "alone", at) for plan in SPACE[:2]]
    assert not tune.are_of_one_race(rows)
    assert tune.are_of_one_race(rows[:1])
    assert tune.are_of_one_race([replace(row, protocol={"phase": "raced"}) for row in rows])


@pytest.mark.usefixtures("recorded")
def test_what_lookup_would_give_runs_in_every_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example a neighbour's winner, which is neither the default nor the fastest."""
    default = generator.default(MANY, CPU.target).config
    plans = generator.space(MANY, CPU.target)[0]
    slowest = max(plans, key=lambda plan: true_us(plan.config))
    assert slowest.config != default
    monkeypatch.setattr(tune, "choose", lambda *_: Choice(slowest, "nearest", "as the test says"))
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune(MANY, CPU, database, trials=1000)
    assert outcome.looked_up is not None
    assert outcome.looked_up.config == slowest.config
    assert outcome.best is not None
    assert outcome.default is not None
    assert tune.are_of_one_race([outcome.best, outcome.default, outcome.looked_up])


@pytest.mark.usefixtures("recorded")
def test_what_was_never_raced_is_raced_though_nothing_is_left_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was interrupted before its races, or rows of an older version, whose races left no trace."""
    monkeypatch.setattr(Recorded, "toolchain", compiler_for(CPU.target).toolchain)
    with Database.open(tmp_path / "t.sqlite") as database:
        for plan in SPACE:
            database.add(Recorded()._row(PROBLEM, plan.config, true_us(plan.config), "raced"))
        child: Any = Recorded()
        outcome = tune.tune(PROBLEM, CPU, database, trials=1000, child=child)
        assert (outcome.measured, child.measured, child.races > 0) == (0, [], True)
        again: Any = Recorded()
        tune.tune(PROBLEM, CPU, database, trials=1000, child=again)
        assert again.races == 0


@pytest.mark.usefixtures("recorded")
def test_shipped_winners_are_candidates_of_every_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the command's: the slowest by the cost model is measured early if it is shipped."""
    last = generator.space(MANY, CPU.target)[0][-1].config
    shipped = TextLayer(dump([Recorded()._row(MANY, last, 1.0, "raced")]), "a test's")
    monkeypatch.setattr(tune.shipped_winners, "layer", lambda name: shipped if name == CPU.name else None)
    child: Any = Recorded()
    with Database.open(tmp_path / "t.sqlite") as database:
        tune.tune(MANY, CPU, database, trials=3, strategy="cheapest", child=child)
        assert last in child.measured
        bare: Any = Recorded()
        tune.tune(PROBLEM, CPU, database, trials=3, shipped=Layered([]), child=bare)
    assert len(bare.measured) == 3


@pytest.mark.usefixtures("recorded")
def test_no_trial_begins_when_the_time_is_over(tmp_path: Path) -> None:
    child: Any = Recorded()
    with Database.open(tmp_path / "t.sqlite") as database:
        outcome = tune.tune_alone(PROBLEM, CPU, database, child, tune.Search(1000, until=time.monotonic() - 1))
    assert (outcome.measured, outcome.best) == (0, None)


def test_a_chain_and_its_parts_have_equal_shares_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part alone would take all the time; one that is done early leaves more to the others."""
    clock = [1000.0]
    ends: list[float | None] = []

    def alone(problem: Problem, device: Any, database: Any, child: Any, search: tune.Search, *_: Any) -> None:
        ends.append(search.until)
        clock[0] += 4.0 if len(ends) == 1 else 13.0

    monkeypatch.setattr(tune.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tune, "tune_alone", alone)
    pair = FusedConv2d(Conv2d(1, 4, 4, 8, 8, 3, 3, pad=1), Conv2d(1, 4, 4, 8, 8, 1, 1))
    child: Any = Recorded()
    with Database.open(tmp_path / "t.sqlite") as database:
        tune.tune(pair, CPU, database, trials=1000, seconds=30.0, child=child)
        tune.tune(pair, CPU, database, trials=1000, child=child)
    assert ends == [1010.0, 1017.0, 1030.0, None, None, None]
