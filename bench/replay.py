"""A recorded space as a device: a search asks for the times of configs, and nothing is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from recorded import RecordedSpace

from qconv import generator
from qconv.generator import Config, Plan
from qconv.tuner.search.strategies import Space, Strategy

BUDGETS = (8, 16, 25, 50, 100)
NEAR_BEST, WITHIN = 0.95, 50  # the fraction of the best, and the trials, by which `reached` counts runs


class SpentError(Exception):
    """The budget is spent; raised to end a search that does not count its evaluations."""


class Uncosted(Space):
    """A space whose plans have no known cost."""

    def cost(self, plan: Plan) -> float:
        return 1.0


@dataclass(frozen=True)
class Replayed:
    """A recorded space, its configs sorted by the cost model."""

    recorded: RecordedSpace
    plans: Sequence[Plan]

    @classmethod
    def of(cls, recorded: RecordedSpace) -> Replayed:
        return cls(recorded, recorded.plans())

    @cached_property
    def configs(self) -> list[Config]:
        return [plan.config for plan in self.plans]

    @cached_property
    def times_us(self) -> dict[Config, float | None]:
        return {config: self.recorded.times_us[config] for config in self.configs}

    @cached_property
    def best_us(self) -> float:
        return min(time for time in self.times_us.values() if time is not None)

    @cached_property
    def places(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the index of the family, and of each field, among their choices; 0 if a family lacks a field."""
        families = generator.families(self.recorded.problem)
        columns = [(name, field, choices) for name, one in families.items() for field, choices in one.choices.items()]
        rows = [
            [list(families).index(config.family)]
            + [c.index(getattr(config, field)) if name == config.family else 0 for name, field, c in columns]
            for config in self.configs
        ]
        return np.array(rows)

    def space(self, seed: int, with_costs: bool) -> Space:
        """Return the space as the tuner presents it, with the default first; without costs, in an order drawn by the
        seed."""
        if with_costs:
            return Space(self.recorded.problem, self.plans, [self.plans[0].config], seed)
        order = np.random.default_rng(seed).permutation(len(self.plans))
        return Uncosted(self.recorded.problem, [self.plans[i] for i in order], (), seed)


class Run:
    """One search of one space: its evaluations, in order. Repeated configs cost nothing."""

    def __init__(self, replayed: Replayed, trials: int) -> None:
        self.replayed = replayed
        self.trials = trials
        self.seen: dict[Config, float | None] = {}

    def evaluate(self, config: Config) -> float | None:
        if config not in self.seen:
            if len(self.seen) == self.trials:
                raise SpentError
            self.seen[config] = self.replayed.times_us[config]
        return self.seen[config]

    def fractions_of_best(self) -> list[float]:
        """Return, after each evaluation, the optimum's time over the best one's; 0 while every config failed."""
        fractions, best = [], float("inf")
        for time in self.seen.values():
            best = min(best, float("inf") if time is None else time)
            fractions.append(self.replayed.best_us / best)
        # A search that found no more configs keeps its best.
        return fractions + fractions[-1:] * (self.trials - len(fractions))


Search = Callable[[Run, int], None]  # evaluates configs by the run until its trials are spent; takes a seed


def by_asking(strategy: Strategy, run: Run, in_flight: int = 1) -> None:
    """Run the tuner's loop: `in_flight` configs are proposed before the first result, as when candidates compile
    meanwhile."""
    waiting: list[Config] = []
    left = run.trials - len(run.seen)
    while left or waiting:
        while left and len(waiting) < in_flight:
            if (plan := strategy.ask()) is None:
                left = 0
                break
            waiting.append(plan.config)
            left -= 1
        if waiting:
            config = waiting.pop(0)
            strategy.tell(config, run.evaluate(config))


def searched(search: Search, replayed: Replayed, trials: int, seed: int) -> list[float]:
    run = Run(replayed, trials)
    with contextlib.suppress(SpentError):
        search(run, seed)
    return run.fractions_of_best()


def summary(fractions: Iterable[Sequence[float]]) -> Mapping[str, Any]:
    """Summarize the runs of one search: the mean fraction at each budget with its standard error, and how many came
    near the optimum soon."""
    every = np.array(list(fractions))
    budgets = [budget for budget in BUDGETS if budget <= every.shape[1]]
    means = {str(budget): round(float(every[:, budget - 1].mean()), 5) for budget in budgets}
    errors = {str(budget): round(float(every[:, budget - 1].std() / len(every) ** 0.5), 5) for budget in budgets}
    reached = float((every[:, min(WITHIN, every.shape[1]) - 1] >= NEAR_BEST).mean())
    return {"repeats": len(every), "means": means, "errors": errors, "reached": reached}
