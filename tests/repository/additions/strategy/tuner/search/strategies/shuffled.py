"""Proposes configs in a random order, independent of all measurements: the baseline of any search."""

from __future__ import annotations

import random

from qconv.generator import Config, Plan
from qconv.tuner.search.strategies import Space


class Shuffled:
    def __init__(self, space: Space) -> None:
        plans = {plan.config: plan for plan in space.plans}
        first = {config: plans[config] for config in space.first if config in plans}
        order = random.Random(space.seed).sample(list(plans), len(plans))
        self._waiting = first | {config: plans[config] for config in order}  # in this order

    def ask(self) -> Plan | None:
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def tell(self, config: Config, time_us: float | None) -> None:
        self._waiting.pop(config, None)


STRATEGY = Shuffled
