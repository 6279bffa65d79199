"""Invented times in a database, stored as if measured."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qconv import generator
from qconv.device import Device
from qconv.generator import Plan
from qconv.op import Problem
from qconv.targets.target import Target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement


def store(
    path: Path,
    device: Device,
    times_us: Iterable[tuple[Plan, float]],
    digest: str | None = None,
    protocol: dict[str, Any] | None = None,
) -> None:
    """Store a time; `digest` is that of an older template."""
    with Database.open(path) as rows:
        for plan, time_us in times_us:
            rows.add(
                Measurement(
                    problem=plan.problem,
                    config=plan.config,
                    device=device.name,
                    target=device.target.name,
                    toolchain="g++ 12",
                    digest=digest or generator.render_kernels(plan).digest,
                    outcome="correct",
                    times_us=(time_us,),
                    median_us=time_us,
                    protocol=protocol,
                )
            )


def one_kernel(problem: Problem, target: Target) -> Plan:
    """Return the cheapest config that is a single kernel."""
    plans, _ = generator.space(problem, target, likely=True)
    return next(plan for plan in plans if not plan.parts)
