"""The interface of search strategies, and their lookup by name, which `qconv-tune tune --strategy` takes.

A strategy is a module of this package. Its `STRATEGY` makes an instance for a space.
tests/tuner/search/test_strategies.py checks that each of them keeps the contract.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from qconv import plugins

if TYPE_CHECKING:
    from qconv.generator import Config, Plan
    from qconv.op import Problem

DEFAULT = "bayesian"
# Begins the name of any sampler of Optuna's: "optuna:TPESampler".
SAMPLER = "optuna:"
_SAMPLED = "qconv.tuner.search.sampled"


@dataclass(frozen=True)
class Space:
    """The space of a search. `first` is proposed before everything else, in this order; it may contain infeasible
    configs. With the same seed, two searches that learn the same times propose the same configs."""

    problem: Problem
    plans: Sequence[Plan]  # feasible plans, cheapest first
    first: Sequence[Config] = ()
    seed: int = 0

    def cost(self, plan: Plan) -> float:
        """Return the clocks that the plan's family predicts."""
        from qconv import generator

        return generator.cost(plan)


class Strategy(Protocol):
    """A search strategy. The tuning loop first tells it the measurements of earlier runs. Then it asks for proposals, a
    few in advance of the times that it tells."""

    def ask(self) -> Plan | None:
        """Return a plan of the space that was neither proposed nor told before, or None when none is left."""
        ...

    @property
    def gain(self) -> float | None:
        """The fraction by which the last proposal is expected to shorten the best time, or None where that is
        unknown."""
        ...

    def tell(self, config: Config, time_us: float | None) -> None:
        """Learn the time of a config, once; None for a failure. A config told before it was proposed will not be
        proposed. A config outside the space is ignored."""
        ...


def names() -> tuple[str, ...]:
    """Return the names of this package's strategies, from the folder, without importing them."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def every_name() -> tuple[str, ...]:
    """Return the names of all strategies, those of other packages last."""
    return (*names(), *(name for name in plugins.names(plugins.STRATEGIES) if name not in names()))


def is_sampler(name: str) -> bool:
    """True for the name of a sampler of Optuna's, which only that package can check."""
    return name.startswith(SAMPLER)


def named(name: str) -> Callable[[Space], Strategy]:
    if is_sampler(name):
        sampled: Callable[[Space], Strategy] = import_module(_SAMPLED).strategy_of(name.removeprefix(SAMPLER))
        return sampled
    if name not in names():
        if name in plugins.names(plugins.STRATEGIES):
            outside: Callable[[Space], Strategy] = plugins.load(plugins.STRATEGIES, name)
            return outside
        raise ValueError(f"the search strategy {name!r} is not known; use {', '.join(every_name())}, or optuna:SAMPLER")
    made: Callable[[Space], Strategy] = import_module(f"{__name__}.{name}").STRATEGY
    return made
