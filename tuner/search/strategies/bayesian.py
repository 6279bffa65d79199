"""The default strategy: an Optuna study with a sampler over an enumerated space, which proposes each feasible config at
most once.

TPE over categoricals is no better than random in spaces of kernels. Instead, a Gaussian process learns the error of the
cost model, and the sampler proposes the config with the largest expected improvement of the best time, in turns with
the cheapest one of the fastest family. The similarity of two configs depends on their fields and on their launches:
blocks, threads and shared memory predict a time better than tiles do, and mean the same in every family. Where no cost
is known, a typical config of each family comes first. The process would choose the corners of a space, of which it
knows least, and which are slow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from qconv.blas import one_thread
from qconv.generator import Config, Plan, families
from qconv.tuner.search.strategies import Space

Floats = NDArray[np.float64]

# Candidates per proposal in a larger space: the cheapest, the neighbours of the fastest, and some at random.
MOST_LOOKED_AT = 2048
CHEAPEST, PARENTS, RANDOM = 1024, 6, 512
# Length scales of the fields' kernel, in steps among a field's choices. The one with the highest likelihood is used.
REACHES = (2.0, 4.0, 8.0, 16.0)
LAUNCH_REACH = 3.0  # length scale for launches: log2 of blocks, threads and bytes
STRUCTURE = 1.0  # steps between configs of different structures
# Variances, relative to 1 for the fields: of the measurement, of the cost model's slope, of a family and of the launch.
NOISE, SLOPE, FAMILY, LAUNCH = 3e-3, 0.25, 4.0, 2.0
# Prior standard deviation of log times, around the cost model and around each other where no cost is known. BELIEF is
# the weight of the prior, in measurements.
SPREAD, SPREAD_WITHOUT_COSTS, BELIEF = 0.25, 0.5, 4.0
# Without known costs, DRAWN configs of a family are drawn and the one most similar to the others is tried. A small
# sample keeps it near the middle of the family, and different in every run.
DRAWN, DRAWN_REACH = 16, 8.0
# Measurements before an expected gain is trusted. From this proposal on, every second one is the cheapest config of the
# fastest family: where the cost model is right about its order, the process needs longer to believe it.
WARM_UP = 8


class SpaceSampler(BaseSampler):
    """`expected` are the logarithms of the cost model's times, up to a constant. `choices` are those of each family's
    fields. A time says less about configs of another of the `structures`. `launches` are logarithms of the launch
    parameters. After a proposal, `gain` is the fraction by which it is expected to shorten the best time, or None where
    too little is known."""

    def __init__(
        self,
        configs: Sequence[Config],
        expected: Sequence[float],
        choices: Mapping[str, Mapping[str, Sequence[int]]],
        structures: Sequence[tuple[int, ...]],
        launches: Sequence[tuple[float, ...]],
        first: Iterable[Config],
        seed: int,
    ) -> None:
        self.gain: float | None = None
        self._configs = list(configs)
        self._numbers = {config: i for i, config in enumerate(self._configs)}
        self._types = {config.family: type(config) for config in self._configs}
        self._choices = choices
        self._expected = np.asarray(expected, dtype=np.float64)
        self._costs_known = len(set(expected)) > 1
        self._believed = SPREAD if self._costs_known else SPREAD_WITHOUT_COSTS
        self._families = np.array([list(choices).index(config.family) for config in self._configs])
        self._places = _places(self._configs, choices)
        numbers = {structure: i for i, structure in enumerate(dict.fromkeys(structures))}
        self._structures = np.array([numbers[structure] for structure in structures])
        self._launches = np.asarray(launches, dtype=np.float64).reshape(
            len(self._configs), len(launches[0]) if launches else 0
        )
        self._first = [self._numbers[config] for config in dict.fromkeys(first) if config in self._numbers]
        self._rng = np.random.default_rng(seed)
        self._known_beside: dict[int, tuple[Floats, Floats]] = {}  # by index of a config: see `_beside`
        self._waiting = np.ones(len(self._configs), dtype=bool)
        self._proposed: dict[int, int] = {}  # index of the config, by number of the trial
        self._times: dict[int, float | None] = {}  # known log times; None for a failure

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        self._learn(study)
        with one_thread():
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
        """Read the trials finished since the last call, including those added from earlier runs."""
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
        self.gain = None
        while self._first:
            number = self._first.pop(0)
            if self._waiting[number]:
                return number
        allowed = np.flatnonzero(self._waiting)
        if not self._costs_known and (untried := self._untried(allowed)).size:
            return self._typical(allowed[self._families[allowed] == self._rng.choice(untried)])
        if not self._proposed:
            return int(allowed[np.argmin(self._expected[allowed])])
        pool = self._pool(allowed)
        gains = self._gains(pool)
        if sum(time is not None for time in self._times.values()) >= WARM_UP:
            self.gain = -math.expm1(-float(gains.max()))
        is_in_turn = self._costs_known and len(self._proposed) >= WARM_UP and len(self._proposed) % 2 == 0
        if is_in_turn and (own := self._of_the_fastest_family(allowed)).size:
            return int(own[np.argmin(self._expected[own])])
        return int(pool[np.argmax(gains)])

    def _of_the_fastest_family(self, allowed: NDArray[np.int64]) -> NDArray[np.int64]:
        timed = {number: time for number, time in self._times.items() if time is not None}
        if not timed:
            return allowed[:0]
        fastest = min(timed, key=lambda number: timed[number])
        own: NDArray[np.int64] = allowed[self._families[allowed] == self._families[fastest]]
        return own

    def _untried(self, allowed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the families of which no config has been proposed."""
        return np.setdiff1d(self._families[allowed], self._families[list(self._proposed.values())])

    def _typical(self, own: NDArray[np.int64]) -> int:
        drawn = self._rng.choice(own, min(len(own), DRAWN), replace=False)
        return int(drawn[np.argmax(self._alike(drawn, drawn, DRAWN_REACH).sum(axis=1))])

    def _pool(self, allowed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the configs to compare for a proposal: all of a small space, a selection of a large one."""
        if allowed.size <= MOST_LOOKED_AT:
            return allowed
        cheapest = allowed[np.argsort(self._expected[allowed], kind="stable")[:CHEAPEST]]
        parts = [cheapest, self._rng.choice(allowed, RANDOM, replace=False)]
        timed = [number for number, time in self._times.items() if time is not None]
        for parent in sorted(timed, key=lambda number: self._times[number] or 0.0)[:PARENTS]:
            # Neighbours differ in one field or two: many changes pay only together, for example a tile and its part per
            # thread.
            moved = (self._places[allowed] != self._places[parent]).sum(axis=1)
            parts.append(allowed[(moved <= 2) & (self._families[allowed] == self._families[parent])])
        return np.unique(np.concatenate(parts))

    def _gains(self, pool: NDArray[np.int64]) -> Floats:
        """Return the expected decrease of the best log time for each config. Proposals that are still being measured
        count as known, at their expected times, so that a batch is not a single config with its neighbours."""
        known, residuals = self._residuals()
        centre = float(np.median(residuals)) if known.size else 0.0
        fits = [self._fit(known, residuals - centre, reach) for reach in REACHES]
        likeliest = int(np.argmax([likelihood for likelihood, _ in fits]))
        reach, weights = REACHES[likeliest], fits[likeliest][1]
        spread = self._spread(residuals - centre, weights)
        out = np.array([n for n in self._proposed.values() if n not in self._times], dtype=np.int64)
        basis = np.concatenate([known, out])
        across = self._alike(pool, basis, reach)
        alike = self._alike(basis, basis, reach) + NOISE * np.eye(len(basis))
        explained = (np.linalg.solve(np.linalg.cholesky(alike), across.T) ** 2).sum(axis=0)
        means = self._expected[pool] + centre + across[:, : len(known)] @ weights
        deviations = spread * np.sqrt(np.maximum(self._own(pool) - explained, 1e-9))
        times = [time for time in self._times.values() if time is not None]
        best = min(times) if times else float((self._expected[basis] + centre).min())
        return expected_improvement(best - means, deviations)

    def _residuals(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the known configs, and the difference of their log times from the expected ones. A failure counts as
        the worst time, so that its neighbours come later."""
        known = np.array(list(self._times), dtype=np.int64)
        worst = max((time for time in self._times.values() if time is not None), default=None)
        if worst is None:
            return known, np.zeros(len(known))
        measured = np.array([worst if time is None else time for time in self._times.values()])
        return known, measured - self._expected[known]

    def _fit(self, known: NDArray[np.int64], residuals: Floats, reach: float) -> tuple[float, Floats]:
        """Return the log marginal likelihood at the likeliest scale, and the weights of the known configs."""
        alike = self._alike(known, known, reach) + NOISE * np.eye(len(known))
        weights: Floats = np.linalg.solve(alike, residuals).astype(np.float64)
        _, volume = np.linalg.slogdet(alike)
        return -2.0 * (len(known) + BELIEF) * math.log(self._spread(residuals, weights)) - float(volume), weights

    def _spread(self, residuals: Floats, weights: Floats) -> float:
        """Return the likeliest standard deviation of the process. The prior limits the influence of the first few
        times."""
        squares = float(residuals @ weights) + BELIEF * self._believed**2
        return math.sqrt(max(squares, 1e-12) / (len(residuals) + BELIEF))

    def _alike(self, some: NDArray[np.int64], others: NDArray[np.int64], reach: float) -> Floats:
        """Return the covariance: configs of one family are similar if their fields are near, configs of any families if
        their launches are."""
        same = self._families[some][:, None] == self._families[others][None, :]
        steps, by_launch = np.empty(same.shape), np.empty(same.shape)
        for column, other in enumerate(others):
            of_steps, of_launch = self._beside(int(other))
            steps[:, column], by_launch[:, column] = of_steps[some], of_launch[some]
        tilt = SLOPE * np.outer(self._tilt(some), self._tilt(others))
        alike: Floats = np.where(same, np.exp(-steps / reach) + FAMILY, 0.0) + by_launch
        return alike + tilt

    def _beside(self, number: int) -> tuple[Floats, Floats]:
        """Return the distances between one config and all others, and the similarities of their launches. Cached,
        because every proposal needs them again."""
        if number not in self._known_beside:
            steps = STRUCTURE * (self._structures != self._structures[number])
            steps = steps + _distances(self._places, self._places[number])
            launch = _distances(self._launches, self._launches[number])
            self._known_beside[number] = steps, LAUNCH * np.exp(-launch / LAUNCH_REACH)
        return self._known_beside[number]

    def _own(self, numbers: NDArray[np.int64]) -> Floats:
        """Return the variances of the configs."""
        own: Floats = 1.0 + FAMILY + LAUNCH + SLOPE * self._tilt(numbers) ** 2
        return own

    def _tilt(self, numbers: NDArray[np.int64]) -> Floats:
        tilt: Floats = self._expected[numbers] - self._expected.min()
        return tilt


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def expected_improvement(leads: Floats, deviations: Floats) -> Floats:
    """Return the mean of the positive part of normal distributions with the means `leads`."""
    z = leads / deviations
    below = 0.5 * (1.0 + _ERF(z / math.sqrt(2.0)))
    gains: Floats = leads * below + deviations * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.maximum(gains, 0.0)


def _distances(some: Floats, other: Floats) -> Floats:
    """Return the sums of the distances along each axis."""
    distances = np.zeros(len(some))
    for column in range(some.shape[1]):
        distances += np.abs(some[:, column] - other[column])
    return distances


def parameters_of(config: Config) -> dict[str, Any]:
    """Return the fields under Optuna's names: each family has its own."""
    values = config.as_dict()
    family = values.pop("family")
    return {"family": family} | {f"{family}.{name}": value for name, value in values.items()}


def distributions_of(config: Config, choices: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, BaseDistribution]:
    fields = {f"{config.family}.{name}": tuple(values) for name, values in choices[config.family].items()}
    every = {"family": tuple(choices)} | fields
    return {name: CategoricalDistribution(values) for name, values in every.items()}


def _places(configs: Sequence[Config], choices: Mapping[str, Mapping[str, Sequence[int]]]) -> Floats:
    """Return the indices of each config's values among their choices. Fields that a family lacks are 0."""
    width = max(len(fields) for fields in choices.values())
    places = np.zeros((len(configs), width))
    for row, config in zip(places, configs, strict=True):
        for column, (name, values) in enumerate(choices[config.family].items()):
            row[column] = list(values).index(getattr(config, name))
    return places


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
    """Return the launch parameters that the Gaussian process compares."""
    main = plan.main
    x, y, z = main.grid
    return math.log2(x * y * z), math.log2(main.threads), math.log2(main.smem_bytes + 1024)


STRATEGY = Bayesian
