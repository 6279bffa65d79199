"""An Optuna sampler over an enumerated space: it proposes feasible configs only, and none twice.

TPE over categoricals is no better than random in spaces of kernels. Here the proposals come out of a pool: the cost
model's best, the neighbours of the fastest configs measured, and some at random. The pool is ranked by a Gaussian
process that learns what the cost model gets wrong; now and then one of the pool is taken whatever its rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from qconv.generator import Config

Floats = NDArray[np.float64]

CHEAPEST = 128  # of the pool: the cost model's best untried
PARENTS = 6  # the fastest measured, whose neighbours are of the pool
RANDOM = 128  # of the pool: any untried
# So many times must be known before the process is asked.
WARM_UP = 6
EXPLORE = 0.08  # of the proposals are random
# A family this much slower than another one, after so many trials of each, is not proposed any more.
FAR_SLOWER, TRIED_ENOUGH = 1.5, 6
# How fast configs grow unlike each other, a field of their choices at a time; the likeliest of these is used.
REACHES = (1.0, 2.0, 4.0, 8.0)
BOLDNESS = 1.0  # standard deviations that a proposal is granted for being unlike what is known
# Variances, beside 1 for what is a config's own: of its measurement, of the cost model's slope, of its family.
NOISE, SLOPE, FAMILY = 1e-3, 0.5, 4.0


class SpaceSampler(BaseSampler):
    """`costs` are the cost model's, cheapest first; `choices` are those of each family's fields; of two configs that
    differ in their `structures` one time says little of the other's."""

    def __init__(
        self,
        configs: Sequence[Config],
        costs: Sequence[float],
        choices: Mapping[str, Mapping[str, Sequence[int]]],
        structures: Sequence[tuple[int, ...]],
        first: Iterable[Config],
        seed: int,
    ) -> None:
        self._configs = list(configs)
        self._numbers = {config: i for i, config in enumerate(self._configs)}
        self._types = {config.family: type(config) for config in self._configs}
        self._choices = choices
        self._costs = np.log(np.maximum(np.asarray(costs, dtype=np.float64), 1e-9))
        self._families = np.array([list(choices).index(config.family) for config in self._configs])
        self._places = _places(self._configs, choices)
        numbers = {structure: i for i, structure in enumerate(dict.fromkeys(structures))}
        self._structures = np.array([numbers[structure] for structure in structures])
        self._first = [self._numbers[config] for config in dict.fromkeys(first) if config in self._numbers]
        self._rng = np.random.default_rng(seed)
        self._waiting = np.ones(len(self._configs), dtype=bool)
        self._proposed: dict[int, int] = {}  # by the number of the trial
        self._times: dict[int, float | None] = {}  # the logs of what is known; None for a failure

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        self._learn(study)
        number = self._choose()
        self._waiting[number] = False
        self._proposed[trial.number] = number
        return distributions_of(self._configs[number], self._choices)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return parameters_of(self._configs[self._proposed[trial.number]])

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        raise ValueError(f"{param_name} is no field of the config that was proposed: suggest what its family has")

    def _learn(self, study: Study) -> None:
        """Trials that were told since the last time, and those that were put in from elsewhere."""
        finished = (TrialState.COMPLETE, TrialState.FAIL)
        for trial in study.get_trials(deepcopy=False, states=finished):
            number = self._proposed.get(trial.number)
            if number is None:
                number = self._proposed[trial.number] = self._number_of(trial.params)
                self._waiting[number] = False
            if number not in self._times:
                self._times[number] = math.log(trial.value) if trial.value is not None else None

    def _number_of(self, parameters: dict[str, Any]) -> int:
        values = dict(parameters)
        family = values.pop("family")
        return self._numbers[self._types[family](**{n.removeprefix(f"{family}."): v for n, v in values.items()})]

    def _choose(self) -> int:
        while self._first:
            number = self._first.pop(0)
            if self._waiting[number]:
                return number
        allowed = np.flatnonzero(self._waiting & ~self._hopeless())
        if not allowed.size:
            allowed = np.flatnonzero(self._waiting)
        timed = [number for number, time in self._times.items() if time is not None]
        if len(timed) < WARM_UP:
            return self._unlearned(allowed)
        if self._rng.random() < EXPLORE:
            return int(self._rng.choice(allowed))
        pool = self._pool(allowed, sorted(timed, key=lambda number: self._times[number] or 0.0))
        return int(pool[np.argmin(self._optimistic(pool))])

    def _unlearned(self, allowed: NDArray[np.int64]) -> int:
        """Each family in turn, for their costs may be on other scales: three of its cheapest, none next to another that
        was tried, and the cheapest of a structure that was not; one of its cheaper half, where all were."""
        tried = np.bincount(self._families[~self._waiting], minlength=len(self._choices))
        turn = min(set(self._families[allowed].tolist()), key=lambda family: (tried[family], family))
        own = allowed[self._families[allowed] == turn]
        before = np.flatnonzero(~self._waiting & (self._families == turn))
        if tried[turn] % 4 == 3:
            unseen = own[~np.isin(self._structures[own], self._structures[before])]
            return int(unseen[0] if unseen.size else self._rng.choice(own[: (own.size + 1) // 2]))
        moved = (self._places[own][:, None] != self._places[before]).sum(axis=2)
        differing = own[(moved > 1).all(axis=1)]
        return int(differing[0] if differing.size else own[0])

    def _hopeless(self) -> NDArray[np.bool_]:
        """Candidates of families that were tried enough to see that another one is far faster."""
        best: dict[int, list[float]] = {}
        for number, time in self._times.items():
            best.setdefault(int(self._families[number]), []).append(math.inf if time is None else time)
        fastest = min((min(times) for times in best.values()), default=math.inf)
        limit = fastest + math.log(FAR_SLOWER)
        slow = [family for family, times in best.items() if len(times) >= TRIED_ENOUGH and min(times) > limit]
        return np.isin(self._families, slow)

    def _pool(self, allowed: NDArray[np.int64], fastest: list[int]) -> NDArray[np.int64]:
        parts = [allowed[:CHEAPEST], self._rng.choice(allowed, min(RANDOM, allowed.size), replace=False)]
        for parent in fastest[:PARENTS]:
            # One field moved, or two: many moves pay only together, as a tile with what a thread does of it.
            moved = (self._places[allowed] != self._places[parent]).sum(axis=1)
            parts.append(allowed[(moved <= 2) & (self._families[allowed] == self._families[parent])])
        return np.unique(np.concatenate(parts))

    def _optimistic(self, pool: NDArray[np.int64]) -> Floats:
        """What the log of the time of each may be at best. A proposal that is still out counts as known, at what is
        expected of it, so that a batch is not one config with its neighbours."""
        known = np.array(list(self._times))
        measured = np.array([math.nan if time is None else time for time in self._times.values()])
        # A failure is as bad as the worst, so that its neighbours come later.
        measured = np.where(np.isnan(measured), np.nanmax(measured), measured)
        centre = float(np.median(measured))
        fits = [self._fit(known, measured - centre, reach) for reach in REACHES]
        likeliest = int(np.argmax([likelihood for likelihood, _ in fits]))
        reach, weights = REACHES[likeliest], fits[likeliest][1]
        out = np.array([n for n in self._proposed.values() if n not in self._times], dtype=np.int64)
        expected = self._alike(pool, known, reach) @ weights
        basis = np.concatenate([known, out])
        alike = self._alike(basis, basis, reach) + NOISE * np.eye(len(basis))
        across = self._alike(pool, basis, reach)
        explained = np.einsum("ij,ji->i", across, np.linalg.solve(alike, across.T))
        own = 1.0 + SLOPE * self._tilt(pool) ** 2 + FAMILY
        spread = math.sqrt(max(float((measured - centre) @ weights), 1e-12) / len(known))
        optimistic: Floats = expected - BOLDNESS * spread * np.sqrt(np.maximum(own - explained, 0.0))
        return optimistic

    def _fit(self, known: NDArray[np.int64], measured: Floats, reach: float) -> tuple[float, Floats]:
        """The log of the marginal likelihood, the scale being the likeliest, and the weights of what is known."""
        alike = self._alike(known, known, reach) + NOISE * np.eye(len(known))
        weights: Floats = np.linalg.solve(alike, measured).astype(np.float64)
        _, volume = np.linalg.slogdet(alike)
        return -len(known) * math.log(max(float(measured @ weights), 1e-12)) - float(volume), weights

    def _alike(self, some: NDArray[np.int64], others: NDArray[np.int64], reach: float) -> Floats:
        """The covariance: near configs of one family are alike; the cost model tells something of all."""
        same = self._families[some][:, None] == self._families[others][None, :]
        differing = np.abs(self._places[some][:, None, :] - self._places[others][None, :, :]).sum(axis=2)
        tilt = SLOPE * np.outer(self._tilt(some), self._tilt(others))
        alike: Floats = np.where(same, np.exp(-differing / reach) + FAMILY, 0.0) + tilt
        return alike

    def _tilt(self, numbers: NDArray[np.int64]) -> Floats:
        tilt: Floats = self._costs[numbers] - self._costs[0]
        return tilt


def parameters_of(config: Config) -> dict[str, Any]:
    """The fields as Optuna names them: each family has its own."""
    values = config.as_dict()
    family = values.pop("family")
    return {"family": family} | {f"{family}.{name}": value for name, value in values.items()}


def distributions_of(config: Config, choices: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, BaseDistribution]:
    fields = {f"{config.family}.{name}": tuple(values) for name, values in choices[config.family].items()}
    every = {"family": tuple(choices)} | fields
    return {name: CategoricalDistribution(values) for name, values in every.items()}


def _places(configs: Sequence[Config], choices: Mapping[str, Mapping[str, Sequence[int]]]) -> Floats:
    """Where each config's values stand among their choices; fields that a family lacks stand at 0."""
    width = max(len(fields) for fields in choices.values())
    places = np.zeros((len(configs), width))
    for row, config in zip(places, configs, strict=True):
        for column, (name, values) in enumerate(choices[config.family].items()):
            row[column] = list(values).index(getattr(config, name))
    return places
