"""Budgets by gain: a search ends when no trial is expected to gain enough, and reports only what it knows."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from qconv import Conv2d, generator
from qconv.device import open_device
from qconv.generator import Config, Plan
from qconv.targets.target import target as target_of
from qconv.tune_db.database import Database
from qconv.tuner.search.strategies import Space, bayesian, cheapest
from qconv.tuner.search.tune import Search, tune
from qconv.tuner.workloads.allocation import Budget

PROBLEM = Conv2d(1, 3, 3, 4, 4, 2, 2)


@pytest.mark.parametrize(
    ("gain_percent", "gain", "worth"),
    [(None, 0.0, True), (1.0, None, True), (1.0, 0.0101, True), (1.0, 0.0099, False), (0.5, 0.006, True)],
)
def test_a_trial_is_worth_what_it_is_expected_to_gain(
    gain_percent: float | None, gain: float | None, worth: bool
) -> None:
    assert Search(0, gain_percent=gain_percent).is_worth(gain) is worth


@dataclass
class Falling:
    """Proposes configs in order, with given expectations."""

    space: Space
    gains: list[float | None] = field(default_factory=lambda: [None, 0.02, 0.009, 0.5])
    gain: float | None = None

    def __post_init__(self) -> None:
        self.left = list(self.space.plans)

    def ask(self) -> Plan | None:
        self.gain = self.gains.pop(0)
        return self.left.pop(0)

    def tell(self, config: Config, time_us: float | None) -> None:
        pass


def test_a_search_ends_at_its_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    from qconv.tuner.search import tune as module

    monkeypatch.setattr(module, "named", lambda name: Falling)
    with Database.open("sqlite://") as rows:
        outcome = tune(PROBLEM, open_device("cpu"), rows, trials=4, gain_percent=1.0)
    assert outcome.measured == 2


def test_only_what_learns_expects_a_gain() -> None:
    layer = Conv2d(1, 14, 14, 32, 32, 3, 3, pad=1)
    space = Space(layer, generator.space(layer, target_of("gfx906"))[0])
    searches = [made.STRATEGY(space) for made in (bayesian, cheapest)]
    for _ in range(8):
        for search in searches:
            plan = search.ask()
            assert search.gain is None
            assert plan is not None
            search.tell(plan.config, 10.0 + plan.cost())
    for search in searches:
        search.ask()
    assert searches[0].gain is not None
    assert searches[1].gain is None


@pytest.mark.parametrize("gain_percent", [0.0, -1.0, 100.0, float("nan")])
def test_a_gain_is_per_cent(gain_percent: float) -> None:
    with pytest.raises(ValueError, match="must be above 0 and below 100: 1 is a good one"):
        Budget(gain_percent=gain_percent)
    assert Budget(gain_percent=2.0).trials is None
