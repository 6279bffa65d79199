"""Which config next: Optuna over the families' choices, never the same config twice, the default first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import optuna

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Config, Plan, families
from qconv.op import Problem
from qconv.target import Target

# Optuna may propose what is infeasible or already measured; after this many such answers the cost model decides.
MOST_ASKS = 40


class Search:
    """Ask for a config, measure it, tell its time (None for a failure); None when the space is exhausted."""

    def __init__(
        self, problem: Problem, target: Target, first: Iterable[Config], known: dict[Config, float | None], seed: int
    ) -> None:
        self._problem = problem
        self._target = target
        self._families = families(problem)
        plans, _ = generator.space(problem, target)
        self._waiting: dict[Config, Plan] = {plan.config: plan for plan in plans}
        self.size = len(plans)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=8)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._trial: optuna.trial.Trial | None = None
        for config, time_us in known.items():
            self._waiting.pop(config, None)
            self._study.add_trial(self._finished(config, time_us))
        self._first = [config for config in dict.fromkeys(first) if config in self._waiting]

    def ask(self) -> Config | None:
        if not self._waiting:
            return None
        if self._first:
            return self._take(self._first.pop(0), None)
        for _ in range(MOST_ASKS):
            trial = self._study.ask()
            config = self._suggest(trial)
            if config in self._waiting:
                return self._take(config, trial)
            self._reject(trial, config)
        return self._take(next(iter(self._waiting)), None)

    def tell(self, config: Config, time_us: float | None) -> None:
        if self._trial is None:
            self._study.add_trial(self._finished(config, time_us))
        elif time_us is None:
            self._study.tell(self._trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(self._trial, time_us)

    def _take(self, config: Config, trial: optuna.trial.Trial | None) -> Config:
        del self._waiting[config]
        self._trial = trial
        return config

    def _suggest(self, trial: optuna.trial.Trial) -> Config:
        family = self._families[trial.suggest_categorical("family", list(self._families))]
        prefix = family.config.family
        values = {name: trial.suggest_categorical(f"{prefix}.{name}", c) for name, c in family.choices.items()}
        return family.config(**values)

    def _reject(self, trial: optuna.trial.Trial, config: Config) -> None:
        """By how much a limit is missed teaches the sampler where the feasible space lies."""
        try:
            generator.plan(self._problem, config, self._target)
        except Infeasible as refused:
            trial.set_constraint("feasible", refused.excess)
        self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)

    def _finished(self, config: Config, time_us: float | None) -> optuna.trial.FrozenTrial:
        family = self._families[config.family]
        params: dict[str, Any] = {"family": config.family}
        distributions: dict[str, optuna.distributions.BaseDistribution] = {
            "family": optuna.distributions.CategoricalDistribution(list(self._families))
        }
        for name, choices in family.choices.items():
            params[f"{config.family}.{name}"] = getattr(config, name)
            distributions[f"{config.family}.{name}"] = optuna.distributions.CategoricalDistribution(choices)
        return optuna.trial.create_trial(
            params=params,
            distributions=distributions,
            value=time_us,
            state=optuna.trial.TrialState.FAIL if time_us is None else optuna.trial.TrialState.COMPLETE,
        )
