"""What the generator knows of a family of kernels: each family's module exports one, as FAMILY."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qconv.generator.plan import Config, Plan
from qconv.op import Problem
from qconv.targets.target import Target

Choices = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Family:
    """One kernel page with its search space."""

    ops: tuple[str, ...]
    config: type[Config]
    choices: Choices
    # Raises Infeasible, with the reason, where a config cannot serve a problem.
    plan: Callable[[Any, Any, Target], Plan]
    # About how long the launches of a plan take, in clocks of a multiprocessor.
    cost: Callable[[Any], float]
    # What the correction of the cost model sees of a plan beside its problem, its launch and its config.
    features: Callable[[Any], Mapping[str, float]] = lambda plan: {}
    # Where there are too many combinations: those that may be feasible.
    promising: Callable[[Any, Target, Choices], Iterator[Config]] | None = None
    # What stands against every config of the family, where it does not serve the problem at all.
    why_none: Callable[[Any, Target], str | None] | None = None
    # Fewer choices for some fields: among these `default` looks first, for a cold lookup waits for it.
    likely: Choices = field(default_factory=dict)
    # Whether the cost is a time, in clocks, or merely an order of the family's own configs.
    predicts_time: bool = True
    # What of a config makes a kernel of another kind, for a search that has few trials: it sees one of each early.
    structure: Callable[[Any], tuple[int, ...]] = lambda config: ()
    # The likely combinations and all of them, once they were asked for: the same for every problem, and to make
    # them takes longer than to refuse most of them.
    _combined: dict[bool, tuple[Config, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.config.family

    def configs(self, problem: Problem, target: Target, likely: bool = False) -> Iterator[Config]:
        """Combinations of the choices, feasible or not: all of them, or those that the family does not rule out."""
        choices = self.choices | (self.likely if likely else {})
        if self.promising is not None:
            yield from self.promising(problem, target, choices)
            return
        if self.why_none is not None and self.why_none(problem, target) is not None:
            return
        if likely not in self._combined:
            every = itertools.product(*choices.values())
            self._combined[likely] = tuple(self.config(**dict(zip(choices, values, strict=True))) for values in every)
        yield from self._combined[likely]
