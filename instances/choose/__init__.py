"""The choice of a plan for a problem: measured, from a near problem, or by the cost model; and its result, with the
reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qconv.generator import Expected, Plan, Source

# exact: tuned for this problem. nearest: from a neighbour's winner. default: the cost model's own choice.
Origin = Literal["exact", "nearest", "default"]


@dataclass(frozen=True)
class Choice:
    """A chosen plan. `reason` explains the origin to the user. `toolchain` built the binary that was measured, or is
    None where any will do. `sources` are those of `plan.kernels`, if they were rendered to compare digests.
    `measured_us` is the time of exactly these sources for this problem, or None. `expected` is the predicted time with
    its spread, where plans were ranked by it. `is_kept` is True where the last race of a network kept the plan;
    `measured_us` is then its time in that network."""

    plan: Plan
    origin: Origin
    reason: str
    toolchain: str | None = None
    sources: tuple[Source, ...] | None = None
    measured_us: float | None = None
    expected: Expected | None = None
    is_kept: bool = False

    def __repr__(self) -> str:
        return f"<Choice: {self.origin}, {self.plan.config} for {self.plan.problem} on {self.plan.target.name}>"

    @property
    def why(self) -> str:
        """The family and the reason, as a network reports them per layer."""
        return f"{self.plan.config.family}, {self.reason}"
