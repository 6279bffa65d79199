"""The race of a whole network, on a clock by which a kernel takes another time among others than alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from qconv import Conv2d, generator
from qconv.device import open_device
from qconv.generator import Config, Plan
from qconv.instances.choose.lookup import choose
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import KEPT, LOST, Measurement
from qconv.tuner import sequence
from qconv.tuner.sequence import NetworkRace, Race

DEVICE = open_device("cpu")
PROBLEMS = tuple(Conv2d(n, 6, 6, 8, 8, 1, 1) for n in (1, 2, 3, 4, 5))
DEFAULTS: dict[Problem, Plan] = {one: generator.default(one, DEVICE.target) for one in PROBLEMS}
BEFORE_US = 10.0


def others(problem: Problem) -> list[Plan]:
    """Return the plans except the default."""
    plans, _ = generator.space(problem, DEVICE.target)
    return [plan for plan in plans if plan.config != DEFAULTS[problem].config][:2]


WINNERS, LATER = ({one: others(one)[at] for one in PROBLEMS} for at in range(2))


@dataclass(frozen=True)
class Fake:
    """A stand-in with `times_us`, the times among the others, by problem and config."""

    times_us: Mapping[tuple[Problem, Config], float]
    answer: Callable[[Problem], Any]

    @property
    def kernels(self) -> dict[Problem, Any]:
        return {problem: self.answer(problem) for problem in PROBLEMS}

    def with_kernels(self, others: Mapping[Problem, Any]) -> Fake:
        return Fake(self.times_us, lambda problem: others.get(problem) or self.answer(problem))

    def run_ms(self, runs: int) -> float:
        return sum(self.launch_us().values()) / 1e3

    def launch_us(self) -> dict[Problem, float]:
        return {one: self.times_us[one, kernel.plan.config] for one, kernel in self.kernels.items()}


@dataclass(frozen=True)
class Network:
    """A network without a GPU: `of_winners` has the time of each winner among the others."""

    of_winners: Mapping[Problem, float]
    device = DEVICE

    def contender(self, rows: Database, in_sequence: bool) -> Fake:
        times = {(one, plan.config): BEFORE_US for one, plan in DEFAULTS.items()}
        times |= {(one, WINNERS[one].config): us for one, us in self.of_winners.items()}
        known: dict[Problem, Any] = {}

        def answer(problem: Problem) -> Any:
            if problem not in known:
                plan = choose(problem, DEVICE, Layered([rows]), in_sequence).plan
                known[problem] = SimpleNamespace(plan=plan, device=DEVICE, binary=SimpleNamespace(toolchain="g++ 12"))
            return known[problem]

        return Fake(times, answer)


@pytest.fixture
def rows() -> Iterator[Database]:
    with Database.open("sqlite://") as database:
        yield database


def tuned(rows: Database) -> None:
    """Store winners that take half of the default's time when alone."""
    measured(rows, DEFAULTS, 8.0)
    measured(rows, WINNERS, 4.0)


def measured(rows: Database, plans: Mapping[Problem, Plan], us: float) -> None:
    for problem, plan in plans.items():
        rows.add(
            Measurement(
                problem=problem,
                config=plan.config,
                device=DEVICE.name,
                target=DEVICE.target.name,
                toolchain="g++ 12",
                digest=generator.render_kernels(plan).digest,
                outcome="correct",
                times_us=(us,),
                median_us=us,
            )
        )


def raced(rows: Database, *of_winners: float) -> Race:
    race = NetworkRace(Network(dict(zip(PROBLEMS, of_winners, strict=True))), rows)
    tuned(rows)
    return race.end()


def installed(rows: Database) -> list[bool]:
    """Return, per problem, whether a network uses its winner. Alone it is always chosen."""
    layers = Layered([rows])
    assert all(choose(one, DEVICE, layers).plan.config == WINNERS[one].config for one in PROBLEMS)
    return [choose(one, DEVICE, layers, in_sequence=True).plan.config == WINNERS[one].config for one in PROBLEMS]


def test_winners_that_lose_among_the_others_are_not_installed(rows: Database) -> None:
    race = raced(rows, 14.0, 13.0, 12.0, 11.0, 11.0)
    assert race == Race(0.05, 0.061, 0.05, 0, 5)
    assert str(race) == (
        "0.0500 ms before, 0.0500 ms after; 0.0610 ms with all 5 new winners: 0 of 5 new winners installed"
    )
    assert installed(rows) == [False] * 5
    phases = {(row.problem, row.config): (row.protocol or {})["phase"] for row in rows.in_sequence()}
    assert phases == {
        **{(one, plan.config): KEPT for one, plan in DEFAULTS.items()},
        **{(one, plan.config): LOST for one, plan in WINNERS.items()},
    }


def test_winners_that_win_are_installed(rows: Database) -> None:
    race = raced(rows, 9.0, 9.0, 9.0, 9.0, 9.0)
    assert race == Race(0.05, 0.045, 0.045, 5, 5)
    assert str(race) == "0.0500 ms before, 0.0450 ms after: 5 of 5 new winners installed"
    assert installed(rows) == [True] * 5


def test_what_won_stays_whatever_is_faster_by_itself_later(rows: Database) -> None:
    raced(rows, 9.0, 9.0, 9.0, 9.0, 9.0)
    measured(rows, LATER, 2.0)
    layers = Layered([rows])
    for one in PROBLEMS:
        assert choose(one, DEVICE, layers).plan.config == LATER[one].config
        assert choose(one, DEVICE, layers, in_sequence=True).plan.config == WINNERS[one].config


@pytest.mark.parametrize(
    ("of_winners", "after_ms"), [((9.0, 14.0, 9.0, 14.0, 14.0), 0.048), ((9.0, 9.0, 11.0, 9.0, 9.0), 0.046)]
)
def test_of_winners_that_win_and_lose_those_that_win_are_installed(
    rows: Database, of_winners: tuple[float, ...], after_ms: float
) -> None:
    race = raced(rows, *of_winners)
    assert installed(rows) == [us < BEFORE_US for us in of_winners]
    assert (race.after_ms, race.installed, race.offered) == (pytest.approx(after_ms), sum(installed(rows)), 5)


def test_where_no_time_is_left_halves_are_not_tried(rows: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "TRYING_S", -1.0)
    assert raced(rows, 9.0, 14.0, 9.0, 14.0, 14.0).installed == 0
    assert installed(rows) == [False] * 5


@pytest.mark.parametrize(("last_ms", "is_installed"), [(1.02, False), (1.009, True)])
def test_what_loses_the_last_race_by_more_than_one_per_cent_is_not_installed(
    rows: Database, monkeypatch: pytest.MonkeyPatch, last_ms: float, is_installed: bool
) -> None:
    """The races before the last chose the fastest of many by noisy times."""
    times = iter([[1.0, 0.9], [0.9, 1.0], *[[0.9, 1.0]] * 8, [1.0, last_ms]])
    monkeypatch.setattr(sequence, "race_ms", lambda *_: next(times))
    race = raced(rows, 9.0, 9.0, 9.0, 9.0, 9.0)
    assert installed(rows) == [is_installed] * 5
    assert race == Race(1.0, 0.9, last_ms if is_installed else 1.0, 5 * is_installed, 5)


def test_winners_of_a_tuning_that_was_interrupted_are_not_installed(rows: Database) -> None:
    """No race confirmed them: Ctrl-C came in between."""
    NetworkRace(Network(dict.fromkeys(PROBLEMS, 14.0)), rows)
    tuned(rows)
    assert installed(rows) == [False] * 5
    assert raced(rows, 9.0, 9.0, 9.0, 9.0, 9.0).installed == 5, "the same command goes on"


def test_what_a_network_has_is_raced_again(rows: Database) -> None:
    raced(rows, 9.0, 9.0, 9.0, 9.0, 9.0)
    again = raced(rows, 9.0, 9.0, 9.0, 9.0, 9.0)
    assert again == Race(0.045, 0.045, 0.045, 0, 0)
    assert str(again) == "0.0450 ms before, 0.0450 ms after: no new winner"
    assert installed(rows) == [True] * 5


def test_a_row_has_the_kernel_and_what_it_takes_in_its_place(rows: Database) -> None:
    raced(rows, 9.0, 14.0, 9.0, 9.0, 9.0)
    (kept,) = (row for row in rows.in_sequence(problem=PROBLEMS[0]) if (row.protocol or {})["phase"] == KEPT)
    plan = WINNERS[PROBLEMS[0]]
    assert (kept.config, kept.median_us, kept.times_us) == (plan.config, 9.0, (9.0,))
    assert (kept.device, kept.target, kept.toolchain) == (DEVICE.name, DEVICE.target.name, "g++ 12")
    assert kept.digest == generator.render_kernels(plan).digest
    assert (kept.protocol or {})["name"] == sequence.IN_SEQUENCE.name


def test_a_race_takes_turns_and_its_rounds_are_long_enough() -> None:
    told: list[tuple[str, int]] = []

    def entrant(name: str, ms: float) -> Any:
        def run_ms(runs: int) -> float:
            told.append((name, runs))
            return ms

        return SimpleNamespace(run_ms=run_ms)

    assert sequence.race_ms(entrant("a", 2.0), entrant("b", 80.0)) == [2.0, 80.0]
    assert told == [("a", 1), ("b", 1), *[("a", 3), ("b", 1)] * sequence.ROUNDS]
