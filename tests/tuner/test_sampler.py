"""The sampler against made-up devices, beside what it must beat: random order, and Optuna's TPE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import optuna
import pytest
from landscape import CHOICES, Times, artificial, rugged_us

from qconv import generator
from qconv.generator import Config
from qconv.problem import Conv2d
from qconv.target import target
from qconv.tuner.sampler import TRIED_ENOUGH, SpaceSampler

LAYER = Conv2d(8, 28, 28, 64, 96, 3, 3, pad=(1, 1, 1, 1))
IN_FLIGHT = 16  # asked before the first is told, as where candidates are compiled ahead


def simt() -> tuple[list[Config], list[float], Mapping[str, Sequence[int]]]:
    family = generator.FAMILIES["simt"]
    plans = [plan for plan in generator.space(LAYER, target("sm_90a"))[0] if plan.config.family == "simt"]
    return [plan.config for plan in plans], [plan.cost() for plan in plans], family.choices


def found(
    sampler: optuna.samplers.BaseSampler,
    configs: Sequence[Config],
    choices: Mapping[str, Sequence[int]],
    us: Times,
    trials: int,
) -> list[float]:
    """The best so far, after each of the trials that are feasible and new."""
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
    """What as many random trials find on average."""
    rng = np.random.default_rng(0)
    return float(np.mean([us[rng.permutation(len(us))[:trials]].min() for _ in range(50)]))


@pytest.mark.parametrize(("name", "trials", "devices"), [("simt", 60, 6), ("artificial", 120, 2)])
def test_it_finds_more_than_random_does(name: str, trials: int, devices: int) -> None:
    """On average: of one made-up device in six, chance finds more in simt's small space."""
    configs, costs, choices = simt() if name == "simt" else (*artificial(), CHOICES)
    ours, chance = [], []
    for seed in range(devices):
        us = rugged_us(configs, costs, seed, choices)
        sampler = SpaceSampler(configs, costs, {configs[0].family: choices}, [()] * len(configs), [], seed)
        ours.append(us.min() / found(sampler, configs, choices, us, trials)[-1])
        chance.append(us.min() / randomly(us, trials))
    assert np.mean(ours) >= np.mean(chance) + 0.05, (ours, chance)


@pytest.mark.slow
def test_it_finds_more_than_tpe_does() -> None:
    configs, costs = artificial()
    ours, theirs = [], []
    for seed in range(3):
        us = rugged_us(configs, costs, seed, CHOICES)
        sampler = SpaceSampler(configs, costs, {"artificial": CHOICES}, [()] * len(configs), [], seed)
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
    """Its cost model may well say that it is the cheapest."""
    values = tuple(range(100))
    configs: list[Config] = [*(Slow(a) for a in values), *(Fast(a) for a in values)]
    choices = {"slow": {"a": values}, "fast": {"a": values}}
    sampler = SpaceSampler(configs, list(range(1, 201)), choices, [()] * 200, [], seed=0)
    study = optuna.create_study(sampler=sampler)
    asked = []
    for _ in range(200):
        trial = study.ask()
        family = trial.suggest_categorical("family", ("slow", "fast"))
        trial.suggest_categorical(f"{family}.a", values)
        asked.append(family)
        study.tell(trial, 30.0 if family == "slow" else 10.0)
    assert asked[:100].count("slow") == TRIED_ENOUGH
    assert asked.count("slow") == asked.count("fast") == 100


def test_every_structure_is_seen_before_anything_is_known() -> None:
    """However dear the cost model says that it is: one trial shows whether the model is wrong there."""
    configs: list[Config] = [Fast(a) for a in range(100)]
    structures = [(a // 60, a // 90) for a in range(100)]
    sampler = SpaceSampler(configs, list(range(1, 101)), {"fast": {"a": tuple(range(100))}}, structures, [], seed=0)
    study = optuna.create_study(sampler=sampler)
    asked = []
    for _ in range(8):
        trial = study.ask()
        trial.suggest_categorical("family", ("fast",))
        asked.append(trial.suggest_categorical("fast.a", tuple(range(100))))
    assert {60, 90} <= set(asked)
    assert asked[0] == 0
