"""The sampler on simulated devices, compared with its baselines: random order, and Optuna's TPE."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import optuna
import pytest
from landscape import CHOICES, Times, artificial, rugged_us
from numpy.typing import NDArray

from qconv import blas, generator
from qconv.generator import Config
from qconv.problem.convolution import Conv2d
from qconv.targets.target import target
from qconv.tuner.search.strategies import bayesian
from qconv.tuner.search.strategies.bayesian import WARM_UP, SpaceSampler, expected_improvement

LAYER = Conv2d(8, 28, 28, 64, 96, 3, 3, pad=(1, 1, 1, 1))
SOLVE = np.linalg.solve
IN_FLIGHT = 16  # proposed before the first result, as when candidates are compiled ahead


def simt() -> tuple[list[Config], list[float], Mapping[str, Sequence[int]]]:
    family = generator.FAMILIES["simt"]
    plans = [plan for plan in generator.space(LAYER, target("sm_90a"))[0] if plan.config.family == "simt"]
    return [plan.config for plan in plans], [plan.cost() for plan in plans], family.choices


def sampler_of(
    configs: Sequence[Config], costs: Sequence[float], choices: Mapping[str, Mapping[str, Sequence[int]]], seed: int
) -> SpaceSampler:
    every = [()] * len(configs)
    return SpaceSampler(configs, np.log(costs).tolist(), choices, every, every, [], seed)


def found(
    sampler: optuna.samplers.BaseSampler,
    configs: Sequence[Config],
    choices: Mapping[str, Sequence[int]],
    us: Times,
    trials: int,
) -> list[float]:
    """Return the best so far, after each of the trials that are feasible and new."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=sampler)
    number_of = {config: i for i, config in enumerate(configs)}
    kind, name = type(configs[0]), configs[0].family
    seen: set[int] = set()
    out: list[tuple[optuna.trial.Trial, float]] = []
    bests: list[float] = []
    for _ in range(50 * trials):
        trial = study.ask()
        trial.suggest_categorical("family", (name,))
        config = kind(**{n: trial.suggest_categorical(f"{name}.{n}", tuple(c)) for n, c in choices.items()})
        number = number_of.get(config)
        if number is None or number in seen:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            continue
        seen.add(number)
        bests.append(min([float(us[number]), *bests[-1:]]))
        out.append((trial, float(us[number])))
        if len(out) == IN_FLIGHT:
            study.tell(*out.pop(0))
        if len(bests) == trials:
            break
    return bests


def randomly(us: Times, trials: int) -> float:
    """Return the mean result of as many random trials."""
    rng = np.random.default_rng(0)
    return float(np.mean([us[rng.permutation(len(us))[:trials]].min() for _ in range(50)]))


@pytest.mark.parametrize(
    ("name", "trials", "devices"), [("simt", 60, 6), pytest.param("artificial", 120, 2, marks=pytest.mark.slow)]
)
def test_it_finds_more_than_random_does(name: str, trials: int, devices: int) -> None:
    """On average: on one simulated device in six, chance does better in simt's small space."""
    configs, costs, choices = simt() if name == "simt" else (*artificial(), CHOICES)
    ours, chance = [], []
    for seed in range(devices):
        us = rugged_us(configs, costs, seed, choices)
        sampler = sampler_of(configs, costs, {configs[0].family: choices}, seed)
        ours.append(us.min() / found(sampler, configs, choices, us, trials)[-1])
        chance.append(us.min() / randomly(us, trials))
    assert np.mean(ours) >= np.mean(chance) + 0.05, (ours, chance)


@pytest.mark.slow
def test_it_finds_more_than_tpe_does() -> None:
    configs, costs = artificial()
    ours, theirs = [], []
    for seed in range(3):
        us = rugged_us(configs, costs, seed, CHOICES)
        sampler = sampler_of(configs, costs, {"artificial": CHOICES}, seed)
        ours.append(us.min() / found(sampler, configs, CHOICES, us, 150)[-1])
        tpe = optuna.samplers.TPESampler(seed=seed, n_startup_trials=8)
        theirs.append(us.min() / found(tpe, configs, CHOICES, us, 150)[-1])
    assert np.mean(ours) >= np.mean(theirs) + 0.05, (ours, theirs)


@dataclass(frozen=True)
class Slow(Config):
    family: ClassVar[str] = "slow"
    a: int


@dataclass(frozen=True)
class Fast(Config):
    family: ClassVar[str] = "fast"
    a: int


def test_a_family_that_is_far_slower_is_left_alone_while_there_is_another() -> None:
    """Even if its cost model predicts it to be the cheapest."""
    values = tuple(range(100))
    configs: list[Config] = [*(Slow(a) for a in values), *(Fast(a) for a in values)]
    choices = {"slow": {"a": values}, "fast": {"a": values}}
    sampler = sampler_of(configs, list(range(1, 201)), choices, 0)
    study = optuna.create_study(sampler=sampler)
    asked = []
    for _ in range(200):
        trial = study.ask()
        family = trial.suggest_categorical("family", ("slow", "fast"))
        trial.suggest_categorical(f"{family}.a", values)
        asked.append(family)
        study.tell(trial, 30.0 if family == "slow" else 10.0)
    assert asked[:100].count("slow") <= 8
    assert asked.count("slow") == asked.count("fast") == 100


def test_every_second_proposal_is_the_cheapest_of_the_fastest_family() -> None:
    """From the ninth on, whatever the times say of the order within the family."""
    values = tuple(range(40))
    configs: list[Config] = [*(Slow(a) for a in values), *(Fast(a) for a in values)]
    choices = {"slow": {"a": values}, "fast": {"a": values}}
    costs = [12 + at / 10 for at in values] + [10 + at / 10 for at in values]
    study = optuna.create_study(sampler=sampler_of(configs, costs, choices, 0))
    asked: list[tuple[str, int]] = []
    for number in range(24):
        trial = study.ask()
        family = trial.suggest_categorical("family", ("slow", "fast"))
        a = trial.suggest_categorical(f"{family}.a", values)
        if number >= WARM_UP and number % 2 == 0:
            left = set(values) - {a for of, a in asked if of == "fast"}
            assert (family, a) == ("fast", min(left)), number
        asked.append((family, a))
        study.tell(trial, 30.0 + a if family == "slow" else 20.0 - a / 4)


def test_without_costs_a_typical_config_of_each_family_comes_first() -> None:
    """From the middle half of an axis: a process without knowledge would begin with the corners."""
    values = tuple(range(21))
    configs: list[Config] = [*(Slow(a) for a in values), *(Fast(a) for a in values)]
    choices = {"slow": {"a": values}, "fast": {"a": values}}
    began = set()
    for seed in range(20):
        sampler = sampler_of(configs, [1.0] * 42, choices, seed)
        study = optuna.create_study(sampler=sampler)
        asked = {}
        for time in (30.0, 10.0):
            trial = study.ask()
            family = trial.suggest_categorical("family", ("slow", "fast"))
            asked[family] = trial.suggest_categorical(f"{family}.a", values)
            study.tell(trial, time)
        assert set(asked) == {"slow", "fast"}
        assert all(5 <= a <= 15 for a in asked.values()), asked
        began.add(tuple(sorted(asked.items())))
    assert len(began) > 1


def test_structures_are_alike_among_themselves() -> None:
    """A slow config says less about other structures, which are proposed before its own neighbour."""
    values = tuple(range(3))
    configs: list[Config] = [Fast(a) for a in values]
    sampler = SpaceSampler(configs, [0.0] * 3, {"fast": {"a": values}}, [(0,), (0,), (1,)], [()] * 3, [configs[1]], 0)
    assert proposed(sampler, values, [50.0]) == [1, 2]


def proposed(sampler: SpaceSampler, values: Sequence[int], times: Sequence[float | None], untold: int = 1) -> list[int]:
    """Return the proposals: as many as there are times, None for a failure, and some without results."""
    study = optuna.create_study(sampler=sampler)
    asked = []
    for at in range(len(times) + untold):
        trial = study.ask()
        trial.suggest_categorical("family", ("fast",))
        asked.append(trial.suggest_categorical("fast.a", values))
        if at < len(times):
            state = optuna.trial.TrialState.FAIL if times[at] is None else optuna.trial.TrialState.COMPLETE
            study.tell(trial, times[at], state=state)
    return asked


def one_field(first: Sequence[int]) -> tuple[SpaceSampler, tuple[int, ...]]:
    """Return a space without costs, in which these come first, and its values."""
    values = tuple(range(41))
    every, named = [()] * len(values), [Fast(a) for a in first]
    configs: list[Config] = [Fast(a) for a in values]
    return SpaceSampler(configs, [0.0] * 41, {"fast": {"a": values}}, every, every, named, 0), values


def test_the_neighbours_of_a_failure_come_later() -> None:
    """A failure counts as the slowest: proposals resemble the fastest."""
    asked = proposed(*one_field([5, 20, 35]), [None, 10.0, 100.0], untold=3)
    assert all(abs(a - 20) <= 5 for a in asked[3:]), asked


@pytest.mark.parametrize("steepness", [lambda far: far / 8, lambda far: (far / 15) ** 2], ids=["valley", "bowl"])
def test_where_times_change_smoothly_the_bottom_is_between_the_known_ones(steepness: Callable[[float], float]) -> None:
    """The likeliest length scale is a long one: with a short one, the next would be a neighbour of the fastest."""
    first = [0, 8, 16, 24, 32, 40]
    times = [10.0 * math.exp(steepness(abs(a - 13))) for a in first]
    asked = proposed(*one_field(first), times)
    assert abs(asked[-1] - 13) <= 1, asked


@dataclass(frozen=True)
class Cube(Config):
    family: ClassVar[str] = "cube"
    a: int
    b: int
    c: int


def test_in_a_large_space_the_neighbours_of_the_fastest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the cost model says of them: it ranks them last, and few others are examined."""
    for name, count in (("MOST_LOOKED_AT", 20), ("CHEAPEST", 2), ("PARENTS", 1), ("RANDOM", 1)):
        monkeypatch.setattr(bayesian, name, count)
    values = tuple(range(6))
    configs: list[Config] = [Cube(a, b, c) for a in values for b in values for c in values]
    fastest, slowest = Cube(4, 4, 4), Cube(1, 1, 1)
    choices = {"cube": dict.fromkeys("abc", values)}
    every = [()] * len(configs)
    costs = [0.001 * at for at in range(len(configs))]
    sampler = SpaceSampler(configs, costs, choices, every, every, [slowest, fastest], 0)
    study = optuna.create_study(sampler=sampler)
    asked = []
    for time in (100.0, 10.0, None, None):
        trial = study.ask()
        trial.suggest_categorical("family", ("cube",))
        asked.append([trial.suggest_categorical(f"cube.{name}", values) for name in "abc"])
        if time is not None:
            study.tell(trial, time)
    assert asked[:2] == [[1, 1, 1], [4, 4, 4]]
    assert all(sum(abs(value - 4) for value in one) <= 2 for one in asked[2:]), asked


def test_what_is_asked_ahead_is_not_one_config_with_its_neighbours() -> None:
    """A pending proposal counts as known."""
    asked = proposed(*one_field([20]), [10.0], untold=4)
    assert min(abs(a - b) for a, b in itertools.combinations(asked, 2)) >= 5, asked


def test_a_launch_like_a_fast_one_is_tried_before_a_config_like_it() -> None:
    values = tuple(range(40))
    configs: list[Config] = [Fast(a) for a in values]
    launches = [(9.0,)] * 40
    launches[0] = launches[39] = (0.0,)
    sampler = SpaceSampler(configs, [0.0] * 40, {"fast": {"a": values}}, [()] * 40, launches, [Fast(0), Fast(20)], 0)
    asked = proposed(sampler, values, [10.0, 100.0])
    assert asked[:2] == [0, 20]
    assert asked[2] == 39


def test_improvements_are_expected_of_what_is_better_or_unknown() -> None:
    leads, deviations = np.array([0.5, 0.0, -0.5, -0.5]), np.array([1e-6, 1.0, 1.0, 1e-6])
    assert expected_improvement(leads, deviations) == pytest.approx([0.5, 0.398942, 0.197797, 0.0], abs=1e-6)


def test_a_gain_is_told_once_enough_is_known_and_falls_as_the_space_is_known() -> None:
    values = tuple(range(30))
    configs: list[Config] = [Fast(a) for a in values]
    sampler = sampler_of(configs, [1.0 + a for a in values], {"fast": {"a": values}}, 0)
    study = optuna.create_study(sampler=sampler)
    gains = []
    for _ in range(29):
        trial = study.ask()
        trial.suggest_categorical("family", ("fast",))
        value = trial.suggest_categorical("fast.a", values)
        gains.append(sampler.gain)
        study.tell(trial, 10.0 * (1.0 + value))
    assert gains[:WARM_UP] == [None] * WARM_UP
    told = [gain for gain in gains[WARM_UP:] if gain is not None]
    assert len(told) == 29 - WARM_UP
    assert max(told) < 0.01


def test_its_matrices_are_one_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more, it would wait for threads that the compilers keep from running."""
    threads = blas.threads()
    if threads is None:
        pytest.skip("NumPy's matrices are not OpenBLAS's here")
    seen: list[int] = []

    def solve(*given: NDArray[np.float64]) -> NDArray[np.float64]:
        seen.append(threads.get())
        return SOLVE(*given)

    configs, costs, choices = simt()
    before = threads.get()
    monkeypatch.setattr(np.linalg, "solve", solve)
    try:
        threads.set(2)
        found(sampler_of(configs, costs, {"simt": choices}, 0), configs, choices, np.ones(len(configs)), 3)
        assert (set(seen), threads.get()) == ({1}, 2)
    finally:
        threads.set(before)
