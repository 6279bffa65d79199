"""The entrants of a race, and the rows of an earlier run that are measured again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from qconv import generator
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Config, Plan
from qconv.instances.load.pair import Runnable
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tuner.measure import evaluate
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.evaluate import race
from qconv.tuner.measure.protocol import WALL_CLOCK
from qconv.tuner.search.tune import Run
from tests.tuner.measure.test_evaluate import CPU, MANY, PROBLEM, Recorded, Told

PLANS = generator.space(MANY, CPU.target)[0][:7]
CONFIGS = [plan.config for plan in PLANS]


class Slowing(Recorded):
    """Each race finds the device slower than the one before, so that times of different races are not comparable."""

    def __init__(self) -> None:
        super().__init__()
        self.entrants: list[list[Config]] = []

    def race(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        configs = [candidate.config for candidate in candidates]
        self.entrants.append(configs)
        slow = 100.0 * len(self.entrants)
        return [self._row(MANY, config, slow + CONFIGS.index(config), "raced") for config in configs]


class Kept(list[Measurement]):
    """A stand-in for a database."""

    def add(self, row: Measurement) -> None:
        self.append(row)


def test_the_leader_of_a_race_runs_in_the_next() -> None:
    """The default does too, which is the slowest here."""
    child: Any = Slowing()
    database: Any = Kept()
    default = CONFIGS[6]
    run = Run(MANY, CPU, database, child)
    for at, plan in enumerate(PLANS):
        run.candidate(plan)
        run.rows[plan.config] = child._row(MANY, plan.config, 10.0 + at, "alone")
    run.race([default])
    assert child.entrants[:2] == [[default, *CONFIGS[:4]], [CONFIGS[0], default, *CONFIGS[4:6]]]
    assert all(default in entrants for entrants in child.entrants)
    assert len(database) == sum(map(len, child.entrants))


def test_each_entrant_runs_once_in_every_round() -> None:
    """After a first run of each, whose time does not count."""
    times = [float(number) for number in range(2 + 2 * WALL_CLOCK.repeats)]
    candidates = [Candidate.of(plan) for plan in generator.space(PROBLEM, CPU.target)[0][:2]]
    rows = race(candidates, Told(*times), WALL_CLOCK)
    assert [row.times_us for row in rows] == [tuple(times[2::2]), tuple(times[3::2])]


def test_who_fails_in_a_race_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its old row would remain, and be raced for ever."""
    one, other = (Candidate.of(plan) for plan in generator.space(PROBLEM, CPU.target)[0][:2])

    def load(plan: Plan, *given: Any) -> Runnable:
        if plan.config == one.config:
            raise CompileError("no memory")
        return honest(plan, *given)

    honest = evaluate.load
    monkeypatch.setattr(evaluate, "load", load)
    rows = race([one, other], Told(*map(float, range(1, 2 + WALL_CLOCK.repeats))), WALL_CLOCK)
    said = {row.config: (row.outcome, row.reason) for row in rows}
    assert said == {one.config: ("compile", "no memory"), other.config: ("correct", None)}


def test_a_time_out_is_tried_again() -> None:
    plans = generator.space(PROBLEM, CPU.target)[0][:2]
    toolchain = compiler_for(CPU.target).toolchain
    with Database.open("sqlite://") as database:
        for plan, outcome in zip(plans, ("timeout", "runtime"), strict=True):
            digest = generator.render(plan).digest
            made = (PROBLEM, plan.config, CPU.name, "cpu", toolchain, digest, outcome, "it says why")
            database.add(Measurement(*made))
        child: Any = Recorded()
        run = Run(PROBLEM, CPU, database, child)
        run.recall(plans)
    assert list(run.rows) == [plans[1].config]
