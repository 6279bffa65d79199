"""Proposes the most expensive config first: the worst order that a cost model has."""

from __future__ import annotations

from qconv.interface import Config, Plan, Space

INTERFACE = 1


class Backwards:
    gain = None

    def __init__(self, space: Space) -> None:
        self._waiting = {plan.config: plan for plan in reversed(space.plans)}

    def ask(self) -> Plan | None:
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def tell(self, config: Config, time_us: float | None) -> None:
        self._waiting.pop(config, None)


STRATEGY = Backwards
