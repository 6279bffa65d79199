"""Samplers of Optuna as strategies: they keep the contract, and learn from what they are told."""

from __future__ import annotations

import optuna
import pytest
from strategy_contract import LARGE, Begin, StrategyContract, run, simulated_us, space_of

from qconv.tuner.search import strategies

SAMPLERS = ("RandomSampler", "TPESampler", "QMCSampler")


class TestEvery(StrategyContract):
    @pytest.fixture(params=SAMPLERS)
    def begin(self, request: pytest.FixtureRequest) -> Begin:
        if request.param == "QMCSampler":
            pytest.importorskip("scipy", reason="scipy is not installed")
        return strategies.named(f"optuna:{request.param}")


def test_a_sampler_that_lacks_a_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")

    monkeypatch.setattr(optuna.samplers.RandomSampler, "sample_independent", sample)
    search = strategies.named("optuna:RandomSampler")(space_of(LARGE))
    with pytest.raises(ValueError, match="needs scipy, which is not installed: pip install scipy, or take another"):
        run(search, 30)


def test_tpe_learns() -> None:
    space = space_of(LARGE)
    times = [simulated_us(plan.config) for plan in space.plans]
    asked = [simulated_us(config) for config in run(strategies.named("optuna:TPESampler")(space), len(times) // 4)]
    assert min(asked) == min(times)
    assert sum(asked) / len(asked) < sum(times) / len(times) - 0.5


def test_what_it_is_told_is_of_the_config() -> None:
    """The sampler learns both the point that it sampled and the config that was measured."""
    search = strategies.named("optuna:RandomSampler")(space_of(LARGE))
    for _ in range(20):
        plan = search.ask()
        assert plan is not None
        search.tell(plan.config, simulated_us(plan.config))
        found = search._study.trials[-1]  # type: ignore[attr-defined]
        assert found.params == search._point(plan.config)  # type: ignore[attr-defined]
        assert found.value is not None


def test_a_name_that_is_no_sampler_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'optuna:Simplex' is no sampler of Optuna's: it has .*TPESampler"):
        strategies.named("optuna:Simplex")
    with pytest.raises(ValueError, match=r"'optuna:GridSampler' needs search_space, which a name does not give"):
        strategies.named("optuna:GridSampler")
