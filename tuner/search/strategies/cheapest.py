"""Configs in the order of the cost model, whatever was measured: the same in every run and on every machine. For a few
trials with a trusted model, and as the baseline of strategies that learn."""

from __future__ import annotations

from qconv.generator import Config, Plan
from qconv.tuner.search.strategies import Space


class Cheapest:
    gain = None  # makes no prediction

    def __init__(self, space: Space) -> None:
        plans = {plan.config: plan for plan in space.plans}
        first = {config: plans[config] for config in space.first if config in plans}
        self._waiting = first | plans  # in this order

    def ask(self) -> Plan | None:
        if not self._waiting:
            return None
        return self._waiting.pop(next(iter(self._waiting)))

    def tell(self, config: Config, time_us: float | None) -> None:
        self._waiting.pop(config, None)


STRATEGY = Cheapest
