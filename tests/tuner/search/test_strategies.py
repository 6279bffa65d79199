"""Every search strategy keeps the contract, found by the name of its module; and the further promises of each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from strategy_contract import LARGE, Begin, StrategyContract, run, simulated_us, space_of

from qconv.tuner.search import strategies
from qconv.tuner.search.strategies.bayesian import Bayesian
from qconv.tuner.search.strategies.cheapest import Cheapest


class TestEvery(StrategyContract):
    @pytest.fixture(params=strategies.names())
    def begin(self, request: pytest.FixtureRequest) -> Begin:
        return strategies.named(request.param)


def test_they_have_names() -> None:
    assert strategies.DEFAULT in strategies.names()
    assert strategies.named("cheapest") is Cheapest
    with pytest.raises(
        ValueError, match=f"'simulated_annealing' is not known; use {', '.join(strategies.names())}, or optuna:S"
    ):
        strategies.named("simulated_annealing")


@pytest.mark.parametrize("seed", range(3))
def test_bayesian_learns(seed: int) -> None:
    """It is better than the middle of the space after a quarter of it."""
    space = replace(space_of(LARGE), seed=seed)
    times = sorted(simulated_us(plan.config) for plan in space.plans)
    asked = run(Bayesian(space), len(times) // 4)
    assert min(simulated_us(config) for config in asked) <= times[len(times) // 20]


def test_cheapest_keeps_the_order_of_the_cost_model_whatever_it_is_told() -> None:
    space = space_of(LARGE)
    order = [plan.config for plan in space.plans]
    assert run(Cheapest(space)) == order
    assert run(Cheapest(replace(space, first=[order[7]], seed=3)), 5) == [order[7], *order[:4]]
