"""Rules that only affect the quality of the search: screening, order, and the choice of entrants."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from qconv import generator
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.protocol import WALL_CLOCK
from qconv.tuner.search import compile_ahead as ahead
from qconv.tuner.search import tune
from qconv.tuner.search.strategies import Space, cheapest
from qconv.tuner.search.tune import MOST_TURNS, Run, Search
from tests.tuner.measure.test_evaluate import CPU, MANY, Recorded
from tests.tuner.measure.test_evaluate_races import Kept, Slowing

PLANS = generator.space(MANY, CPU.target)[0]


class Asked(Recorded):
    """Records the config with which each was compared."""

    def __init__(self, *_: object) -> None:
        super().__init__()
        self.beside: list[float | None] = []

    def measure(self, candidate: Candidate, best_us: float | None = None) -> Measurement:
        self.beside.append(best_us)
        self.measured.append(candidate.config)
        return self._row(candidate.problem, candidate.config, 50.0 - len(self.beside), "alone")


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "build", lambda *_: None)


def test_a_candidate_is_compared_with_what_was_timed_in_full() -> None:
    """A few lucky repeats would look faster, and screen out the fastest config."""
    child: Any = Asked()
    database: Any = Kept()
    run = Run(MANY, CPU, database, child)
    run.rows[PLANS[0].config] = child._row(MANY, PLANS[0].config, 1.0, "screened")
    strategy = cheapest.STRATEGY(Space(MANY, PLANS[1:], [], 0))
    run.search(strategy, 4, Search(4), lambda progress: None)
    assert child.beside == [None, 49.0, 48.0]


def test_what_was_fastest_on_older_templates_is_measured_early() -> None:
    """The fastest first, after the default and lookup's choice, although the cost model ranks them last."""
    child: Any = Asked()
    elsewhere, *older = (plan.config for plan in PLANS[-5:])
    default = generator.default(MANY, CPU.target).config
    with Database.open("sqlite://") as below, Database.open("sqlite://") as rows:
        for at, config in enumerate(older):
            below.add(replace(child._row(MANY, config, 10.0 - at, "raced"), digest="older"))
        below.add(replace(child._row(MANY, elsewhere, 1.0, "raced"), device="another"))
        search = Search(8, strategy="cheapest")
        tune.tune_alone(MANY, CPU, rows, child, search, Layered([below]))
    first = [config for config in child.measured if config != default][:4]
    assert first == older[::-1]
    assert elsewhere not in child.measured
    assert child.measured.index(default) <= 1


def test_the_worker_has_the_time_that_the_caller_gives_a_config(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[object, ...]] = []

    class Begun(Asked):
        def __init__(self, *given: object) -> None:
            super().__init__()
            begun.append(given)

    monkeypatch.setattr(tune, "Child", Begun)
    with Database.open("sqlite://") as rows:
        tune.tune(MANY, CPU, rows, trials=2, timeout_s=7.5)
    assert begun == [(CPU, WALL_CLOCK, 7.5)]


def test_the_strategy_gets_the_seed_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Space] = []

    def named(name: str) -> Any:
        return lambda space: begun.append(space) or cheapest.STRATEGY(space)

    monkeypatch.setattr(tune, "named", named)
    child: Any = Asked()
    with Database.open("sqlite://") as rows:
        tune.tune(MANY, CPU, rows, trials=2, seed=71, child=child)
    assert [space.seed for space in begun] == [71]


def test_nobody_races_alone_and_nobody_for_ever() -> None:
    """The device gets slower with each race: a config that has not run lately looks fastest."""
    child: Any = Slowing()
    database: Any = Kept()
    run = Run(MANY, CPU, database, child)
    for at, plan in enumerate(PLANS[:7]):
        run.candidate(plan)
        run.rows[plan.config] = child._row(MANY, plan.config, 10.0 + at, "alone")
        if at == 0:
            run.race([])
            assert not child.entrants
    run.race([])
    turns = Counter(config for entrants in child.entrants for config in entrants)
    leader = max(turns, key=lambda config: turns[config])
    assert {turns[config] for config in run.rows if config != leader} == {MOST_TURNS}
