"""Which config next: an Optuna study over the feasible plans, never the same config twice, the default first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import optuna
from optuna.trial import TrialState

from qconv.generator import Config, Plan, families
from qconv.tuner.sampler import SpaceSampler, distributions_of, parameters_of


class Search:
    """Ask for a config, measure it, tell its time (None for a failure); None when the space is exhausted. Any number
    may be asked before the first is told."""

    def __init__(
        self, plans: Sequence[Plan], first: Iterable[Config], known: Mapping[Config, float | None], seed: int
    ) -> None:
        """`plans` is the feasible space of one problem, cheapest first; `known` was measured before, and what of it is
        not in the space is left aside."""
        self._families = families(plans[0].problem)
        choices = {name: family.choices for name, family in self._families.items()}
        self._plans = {plan.config: plan for plan in plans}
        costs = [plan.cost() for plan in plans]
        structures = [self._families[config.family].structure(config) for config in self._plans]
        sampler = SpaceSampler(list(self._plans), costs, choices, structures, first, seed)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(sampler=sampler, direction="minimize")
        self._asked: dict[Config, optuna.trial.Trial] = {}
        known = {config: time_us for config, time_us in known.items() if config in self._plans}
        for config, time_us in known.items():
            finished = optuna.trial.create_trial(
                params=parameters_of(config),
                distributions=distributions_of(config, choices),
                value=time_us,
                state=TrialState.FAIL if time_us is None else TrialState.COMPLETE,
            )
            self._study.add_trial(finished)
        self._left = len(plans) - len(known)

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
        self._study.tell(self._asked.pop(config), time_us, state=state)
