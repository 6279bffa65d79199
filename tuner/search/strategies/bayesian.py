"""The default strategy: an Optuna study with `SpaceSampler`, which proposes the config with the largest expected
improvement."""

from __future__ import annotations

import math

import optuna
from optuna.trial import TrialState

from qconv.generator import Config, Plan, families
from qconv.tuner.search.sampler import SpaceSampler, distributions_of, parameters_of
from qconv.tuner.search.strategy import Space


class Bayesian:
    def __init__(self, space: Space) -> None:
        self._families = families(space.problem)
        self._choices = {name: family.choices for name, family in self._families.items()}
        self._plans = {plan.config: plan for plan in space.plans}
        structures = [self._families[config.family].structure(config) for config in self._plans]
        launches = [launch_of(plan) for plan in space.plans]
        expected = self._expected(space)
        configs = list(self._plans)
        self._sampler = SpaceSampler(configs, expected, self._choices, structures, launches, space.first, space.seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(sampler=self._sampler, direction="minimize")
        self._asked: dict[Config, optuna.trial.Trial] = {}
        self._left = len(self._plans)

    @property
    def gain(self) -> float | None:
        return self._sampler.gain

    def _expected(self, space: Space) -> list[float]:
        """Return the logarithms of the predicted times. Cost models that only rank are replaced by a function that
        rises slowly with the rank."""
        if all(self._families[config.family].predicts_time for config in self._plans):
            return [math.log(max(space.cost(plan), 1e-9)) for plan in space.plans]
        return [rank / len(space.plans) for rank in range(len(space.plans))]

    def ask(self) -> Plan | None:
        if not self._left:
            return None
        self._left -= 1
        trial = self._study.ask()
        name = trial.suggest_categorical("family", tuple(self._families))
        family = self._families[name]
        values = {field: trial.suggest_categorical(f"{name}.{field}", c) for field, c in family.choices.items()}
        config = family.config(**values)
        self._asked[config] = trial
        return self._plans[config]

    def tell(self, config: Config, time_us: float | None) -> None:
        state = TrialState.FAIL if time_us is None else TrialState.COMPLETE
        if config in self._asked:
            self._study.tell(self._asked.pop(config), time_us, state=state)
        elif config in self._plans:
            self._left -= 1
            finished = optuna.trial.create_trial(
                params=parameters_of(config),
                distributions=distributions_of(config, self._choices),
                value=time_us,
                state=state,
            )
            self._study.add_trial(finished)


def launch_of(plan: Plan) -> tuple[float, ...]:
    """Return the launch parameters that the Gaussian process compares: see `sampler`."""
    main = plan.main
    x, y, z = main.grid
    return math.log2(x * y * z), math.log2(main.threads), math.log2(main.smem_bytes + 1024)


STRATEGY = Bayesian
