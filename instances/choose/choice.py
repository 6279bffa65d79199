"""The answer of a lookup: the plan that is to serve a problem, and why this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from qconv.generator import Expected, Plan, Source

# Where the plan's config comes from: measured for this very problem, for a neighbour, or the cost model alone.
Origin = Literal["exact", "nearest", "default"]


@dataclass(frozen=True)
class Choice:
    """`reason` says the origin in words, for the user. `toolchain` is the one that built the binary which was measured;
    None where nothing was measured for this problem, so that any will do. `sources` are those of `plan.kernels`, where
    choosing has rendered them to see whether they are what was measured. `measured_us` is what these very sources took
    for this problem; None where nobody measured that. `expected`: how long a call will take, and how sure that is,
    where several were ranked by it. `is_kept`: the last race of a network kept it, and `measured_us` is what it took
    there."""

    plan: Plan
    origin: Origin
    reason: str
    toolchain: str | None = None
    sources: tuple[Source, ...] | None = None
    measured_us: float | None = None
    expected: Expected | None = None
    is_kept: bool = False

    @property
    def why(self) -> str:
        """The family and the reason, as a network tells of each layer."""
        return f"{self.plan.config.family}, {self.reason}"
