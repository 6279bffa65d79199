"""Proposes the most expensive config first, after those that the caller names."""

from __future__ import annotations

from qconv.interface import Config, Plan, Space

INTERFACE = 1


class Backwards:
    gain = None

    def __init__(self, space: Space) -> None:
        plans = {plan.config: plan for plan in reversed(space.plans)}
        self._waiting = {config: plans[config] for config in space.first if config in plans} | plans

    def ask(self) -> Plan | None:
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def tell(self, config: Config, time_us: float | None) -> None:
        self._waiting.pop(config, None)


STRATEGY = Backwards
