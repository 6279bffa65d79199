"""Kernels that wait for the launch before them first of all: they have no weights that could come meanwhile."""

from __future__ import annotations

from qconv.generator.plan import Plan


class WaitingPlan(Plan):
    @property
    def overlaps(self) -> bool:
        return self.target.overlaps_launches

    @property
    def wants(self) -> tuple[str, ...]:
        return ("overlap",) * self.overlaps
