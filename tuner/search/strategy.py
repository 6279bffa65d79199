"""Which config next: what every search strategy promises, and which ones there are.

A strategy is a module of `qconv.tuner.search.strategies`, chosen by its name; what it exports as `STRATEGY` makes one
for a space. tests/tuner/search/test_strategy.py holds each of them to the contract.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from qconv.tuner.search import strategies

if TYPE_CHECKING:
    from qconv.generator import Config, Plan
    from qconv.op import Problem

DEFAULT = "bayesian"


@dataclass(frozen=True)
class Space:
    """What is searched. `first` is asked before everything else, in this order; configs that are not feasible may be
    among them. A seed makes two searches that are told the same times ask the same configs."""

    problem: Problem
    plans: Sequence[Plan]  # the feasible ones, cheapest first
    first: Sequence[Config] = ()
    seed: int = 0

    def cost(self, plan: Plan) -> float:
        """The clocks that the plan's family predicts."""
        from qconv import generator

        return generator.cost(plan)


class Strategy(Protocol):
    """The tuning loop tells what earlier runs measured; then it asks, a few ahead of what it tells."""

    def ask(self) -> Plan | None:
        """A plan of the space that was neither asked nor told before; None when there is none left."""
        ...

    @property
    def gain(self) -> float | None:
        """By which fraction the plan asked last is expected to shorten the best time; None where that is not known."""
        ...

    def tell(self, config: Config, time_us: float | None) -> None:
        """The time of a config, once; None for a failure. One that was told before it was asked is not asked any more;
        one that is not of the space tells nothing."""
        ...


def names() -> tuple[str, ...]:
    """Read from the folder, without importing what they import."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(strategies.__path__)))


def named(name: str) -> Callable[[Space], Strategy]:
    if name not in names():
        raise ValueError(f"the search strategy {name!r} is not known; use {', '.join(names())}")
    made: Callable[[Space], Strategy] = import_module(f"{strategies.__name__}.{name}").STRATEGY
    return made
