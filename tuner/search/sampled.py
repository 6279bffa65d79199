"""Any sampler of Optuna as a search strategy, by its name: `optuna:TPESampler`.

A sampler knows neither which configs are feasible nor which were proposed. It samples the indices of the fields among
their values, which are ordered and so say more than names; the nearest config that is left is proposed. Its time is
told for the point that was sampled, and for the config's own where that is another.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import Trial, TrialState, create_trial

from qconv.generator import Config, Plan
from qconv.tuner.search.strategies import Space

# Steps between configs of two families, which are further apart than any two of one.
OTHER_FAMILY = 1000.0


def strategy_of(name: str) -> Callable[[Space], Sampled]:
    """Return the strategy of a sampler. Raise ValueError for a name that Optuna does not have, or whose sampler needs
    more than a seed."""
    kind = getattr(optuna.samplers, name, None)
    if not (inspect.isclass(kind) and issubclass(kind, BaseSampler)):
        known = ", ".join(one for one in optuna.samplers.__all__ if one.endswith("Sampler") and one != "BaseSampler")
        raise ValueError(f"the search strategy 'optuna:{name}' is no sampler of Optuna's: it has {known}")
    takes = inspect.signature(kind).parameters
    needed = [one.name for one in takes.values() if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    if needed:
        raise ValueError(
            f"the search strategy 'optuna:{name}' needs {', '.join(needed)}, which a name does not give: take another"
        )
    return partial(Sampled, kind if "seed" in takes else lambda seed: kind())


@contextmanager
def _of_optuna() -> Iterator[None]:
    """Silence the warnings that most samplers are experimental. Raise ValueError where one needs a package that is not
    installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this sampler of Optuna's needs {error.name}, which is not installed: pip install {error.name}, or take "
            "another strategy"
        ) from None


class Sampled:
    gain = None

    def __init__(self, make: Callable[..., BaseSampler], space: Space) -> None:
        self._left = {plan.config: plan for plan in space.plans}
        self._first = [config for config in dict.fromkeys(space.first) if config in self._left]
        self._configs = list(self._left)
        self._is_left = np.ones(len(self._configs), dtype=bool)
        self._numbers = {config: number for number, config in enumerate(self._configs)}
        said = [_values(config) for config in self._configs]
        names = dict.fromkeys(name for values in said for name in values)
        orders = {name: sorted({values[name] for values in said if name in values}) for name in names}
        # A field that a family does not have is at its first value.
        places = [[orders[name].index(values[name]) if name in values else 0 for name in names] for values in said]
        self._places = np.array(places, dtype=np.int64).reshape(len(said), len(names))
        self._weights = np.array([OTHER_FAMILY if name == "family" else 1.0 for name in names])
        self._distributions: dict[str, BaseDistribution] = {
            name: IntDistribution(0, len(order) - 1) for name, order in orders.items()
        }
        self._asked: dict[Config, Trial] = {}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with _of_optuna():
            self._study = optuna.create_study(sampler=make(seed=space.seed))

    def ask(self) -> Plan | None:
        while self._first:
            if (config := self._first.pop(0)) in self._left:
                return self._take(config)
        if not self._left:
            return None
        with _of_optuna():
            trial = self._study.ask(self._distributions)
        point = np.array([trial.params[name] for name in self._distributions], dtype=np.float64)
        steps = (np.abs(self._places - point) * self._weights).sum(axis=1)
        config = self._configs[int(np.argmin(np.where(self._is_left, steps, np.inf)))]
        self._asked[config] = trial
        return self._take(config)

    def tell(self, config: Config, time_us: float | None) -> None:
        if config not in self._numbers:
            return
        if config in self._left:
            self._take(config)
        trial, point = self._asked.pop(config, None), self._point(config)
        state = TrialState.FAIL if time_us is None else TrialState.COMPLETE
        value = None if time_us is None else float(np.log(time_us))
        if trial is not None:
            self._study.tell(trial, value, state)
        if trial is None or trial.params != point:
            self._study.add_trial(
                create_trial(state=state, value=value, params=point, distributions=self._distributions)
            )

    def _take(self, config: Config) -> Plan:
        self._is_left[self._numbers[config]] = False
        return self._left.pop(config)

    def _point(self, config: Config) -> dict[str, Any]:
        return dict(zip(self._distributions, map(int, self._places[self._numbers[config]]), strict=True))


def _values(config: Config) -> dict[str, Any]:
    own = {one.name: getattr(config, one.name) for one in fields(config)}
    return {"family": config.family} | {name: value for name, value in own.items() if isinstance(value, int)}
