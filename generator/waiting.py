"""Kernels that wait by themselves for the launch before them, so that they may begin while it ends."""

from __future__ import annotations

from qconv.generator.plan import Plan


class WaitingPlan(Plan):
    @property
    def overlaps(self) -> bool:
        return self.target.overlaps_launches

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, *("overlap",) * self.overlaps)
