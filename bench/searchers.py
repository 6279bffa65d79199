"""The compared searches: the tuner's strategies, Optuna's samplers and Kernel Tuner's, each as a `Search` of a replay.

Optuna's samplers cannot use a list of feasible configs: each suggestion counts as the nearest untried config, so they
waste no evaluation. Kernel Tuner's strategies get the feasible ones, by its own simulation mode.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from recorded import OTHER_FAMILY
from replay import Replayed, Run, Search, by_asking

from qconv.tuner.search.strategies import named

if TYPE_CHECKING:
    import optuna

HINTS = 8  # hints of the cost model with which a hinted search begins
KERNEL_TUNER = ("adaptive_tabu_greywolf", "hybrid_vndx", "genetic_algorithm", "random_sample")


def ours(name: str, with_costs: bool, in_flight: int, run: Run, seed: int) -> None:
    by_asking(named(name)(run.replayed.space(seed, with_costs)), run, in_flight)


def at_random(run: Run, seed: int) -> None:
    configs = run.replayed.configs
    for i in np.random.default_rng(seed).permutation(len(configs)):
        run.evaluate(configs[i])


def by_optuna(sampler: Callable[[int], optuna.samplers.BaseSampler], hinted: bool, run: Run, seed: int) -> None:
    """Search over the indices of all fields among their choices, which are ordered and so say more than names."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    places, configs = run.replayed.places, run.replayed.configs
    varies = np.flatnonzero(places.max(axis=0))
    most = places.max(axis=0)
    study = optuna.create_study(sampler=sampler(seed))
    if hinted:
        for place in places[:HINTS]:
            study.enqueue_trial({f"p{i}": int(place[i]) for i in varies})
    left = np.ones(len(configs), dtype=bool)
    while left.any():
        trial = study.ask()
        asked = np.zeros(places.shape[1])
        for i in varies:
            asked[i] = trial.suggest_int(f"p{i}", 0, int(most[i]))
        # The family is unlike the fields: configs of another family are far away.
        moved = np.abs(places - asked)[:, 1:].sum(axis=1) + 1000.0 * (places[:, 0] != asked[0])
        nearest = int(np.argmin(np.where(left, moved, np.inf)))
        left[nearest] = False
        time_us = run.evaluate(configs[nearest])
        if time_us is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, float(np.log(time_us)))


def tpe(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.TPESampler(seed=seed)


def gp(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.GPSampler(seed=seed)


def cma_es(seed: int) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.CmaEsSampler(seed=seed)


class _Simulation:
    """A space in Kernel Tuner's form: created once, because it takes seconds."""

    def __init__(self, replayed: Replayed) -> None:
        from kernel_tuner.searchspace import Searchspace

        families = list(dict.fromkeys(config.family for config in replayed.configs))
        fields: dict[str, list[Any]] = {"family": list(range(len(families)))}
        self.config_of: dict[tuple[int, ...], Any] = {}
        rows: list[dict[str, int]] = []
        for config in replayed.configs:
            # By number: strings have no distance.
            row = {"family": families.index(config.family)}
            row |= {f"{config.family}_{n}": v for n, v in config.as_dict().items() if isinstance(v, int)}
            rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        rows = [{name: row.get(name, OTHER_FAMILY) for name in names} for row in rows]
        fields |= {name: sorted({row[name] for row in rows}) for name in names if name != "family"}
        self.cache: dict[str, dict[str, Any]] = {}
        for config, row in zip(replayed.configs, rows, strict=True):
            time_us = replayed.times_us[config]
            key = tuple(row.values())
            self.config_of[key] = config
            self.cache[",".join(map(str, key))] = row | self._found(time_us)
        self.names = names
        document = {"tune_params": {name: fields[name] for name in names}, "cache": self.cache}
        self.space = Searchspace(None, None, None, from_cache=document)

    @staticmethod
    def _found(time_us: float | None) -> dict[str, Any]:
        from kernel_tuner.util import RuntimeFailedConfig

        return {"__error__": RuntimeFailedConfig()} if time_us is None else {"time": time_us}


_simulations: list[tuple[Replayed, _Simulation]] = []  # the last one only: a later space could reuse its address


def by_kernel_tuner(name: str, run: Run, seed: int) -> None:
    """Run Kernel Tuner's strategy, search space and simulating runner; only the results are read here."""
    from kernel_tuner.interface import Options, strategy_map
    from kernel_tuner.runners.simulation import SimulationRunner
    from kernel_tuner.util import TuningBudget

    if not _simulations or _simulations[0][0] is not run.replayed:
        _simulations[:] = [(run.replayed, _Simulation(run.replayed))]
    made = _simulations[0][1]
    random.seed(seed)
    np.random.seed(seed)
    runner = SimulationRunner(None, Options(kernel_name="replay"), Options(quiet=True), 1, [])
    options = Options(
        strategy_options=Options(max_fevals=run.trials),
        max_fevals=run.trials,
        objective=["time"],
        objective_higher_is_better=[False],
        budget=TuningBudget(None, run.trials),
        cache=made.cache,
        tune_params=made.space.tune_params,
        restrictions=None,
        metrics=None,
        verbose=False,
    )
    for result in strategy_map[name].tune(made.space, runner, options):
        run.evaluate(made.config_of[tuple(result[name] for name in made.names)])


def searches() -> dict[str, Search]:
    """Return the searches by their names in the table. `+` means with the cost model's predictions."""
    found: dict[str, Search] = {"random": at_random}
    for with_costs, mark in ((True, " +"), (False, "")):
        found[f"qconv{mark}"] = partial(ours, "bayesian", with_costs, 1)
        found[f"qconv{mark}, 16 in flight"] = partial(ours, "bayesian", with_costs, 16)
        for name, sampler in (("TPE", tpe), ("GP", gp), ("CMA-ES", cma_es)):
            found[f"Optuna {name}{mark}"] = partial(by_optuna, sampler, with_costs)
    found["cheapest +"] = partial(ours, "cheapest", True, 1)
    return found | {f"Kernel Tuner {name}": partial(by_kernel_tuner, name) for name in KERNEL_TUNER}
