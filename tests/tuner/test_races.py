"""Who runs in a race, and which rows of an earlier run are measured again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from test_stages import CPU, MANY, PROBLEM, Recorded, Told

from qconv import generator
from qconv.generator import Config
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement
from qconv.tuner import tune
from qconv.tuner.evaluate import race
from qconv.tuner.protocol import WALL_CLOCK

CONFIGS = [plan.config for plan in generator.space(MANY, CPU.target)[0][:7]]


class Slowing(Recorded):
    """Each race finds the device slower than the one before: its times say little of another race's."""

    def __init__(self) -> None:
        super().__init__()
        self.entrants: list[list[Config]] = []

    def race(self, problem: Problem, configs: Sequence[Config]) -> list[Measurement]:
        self.entrants.append(list(configs))
        slow = 100.0 * len(self.entrants)
        return [self._row(problem, config, slow + CONFIGS.index(config), "raced") for config in configs]


class Kept(list[Measurement]):
    """In place of a database."""

    def add(self, row: Measurement) -> None:
        self.append(row)


def test_the_leader_of_a_race_runs_in_the_next() -> None:
    """And so does the default, which is the slowest here."""
    child: Any = Slowing()
    database: Any = Kept()
    default = CONFIGS[6]
    rows = {config: child._row(MANY, config, 10.0 + at, "alone") for at, config in enumerate(CONFIGS[:7])}
    tune._race(MANY, default, child, database, rows)
    assert child.entrants[:2] == [[default, *CONFIGS[:4]], [CONFIGS[0], default, *CONFIGS[4:6]]]
    assert all(default in entrants for entrants in child.entrants)
    assert len(database) == sum(map(len, child.entrants))


def test_each_entrant_runs_once_in_every_round() -> None:
    """Behind a first run of each, whose time does not count."""
    times = [float(number) for number in range(2 + 2 * WALL_CLOCK.repeats)]
    configs = [plan.config for plan in generator.space(PROBLEM, CPU.target)[0][:2]]
    rows = race(configs, Told(*times), WALL_CLOCK)
    assert [row.times_us for row in rows] == [tuple(times[2::2]), tuple(times[3::2])]


def test_a_time_out_is_tried_again() -> None:
    plans = generator.space(PROBLEM, CPU.target)[0][:2]
    with Database.open("sqlite://") as database:
        for plan, outcome in zip(plans, ("timeout", "runtime"), strict=True):
            digest = generator.render(plan).digest
            made = (PROBLEM, plan.config, CPU.name, "cpu", "told", digest, outcome, "it says why")
            database.add(Measurement(*made))
        known = tune._known(PROBLEM, plans, CPU, database, "told")
    assert list(known) == [plans[1].config]
