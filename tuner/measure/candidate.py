"""A plan that is to be measured, with its rendered sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from qconv import generator
from qconv.device import Device
from qconv.generator import Config, Plan, Source
from qconv.op import Problem
from qconv.targets.target import Target
from qconv.tune_db.measurement import Measurement


@dataclass(frozen=True)
class Candidate:
    """A plan with its sources, one per entry of `plan.kernels`. The tuner renders it once: the same text is compiled in
    advance, sent to the worker, and identified by its digest in the row, whether that holds a time or a failure."""

    plan: Plan
    sources: tuple[Source, ...]
    digest: str

    @classmethod
    def of(cls, plan: Plan) -> Candidate:
        rendered = generator.render_kernels(plan)
        return cls(plan, rendered.sources, rendered.digest)

    @property
    def problem(self) -> Problem:
        return self.plan.problem

    @property
    def config(self) -> Config:
        return self.plan.config

    def as_dict(self) -> dict[str, Any]:
        """Return what the worker receives in addition to the problem."""
        sources = [asdict(source) for source in self.sources]
        return {"config": self.config.as_json(), "sources": sources, "digest": self.digest}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], problem: Problem, target: Target) -> Candidate:
        plan = generator.plan(problem, generator.config_from_json(values["config"]), target)
        return cls(plan, tuple(Source(**source) for source in values["sources"]), values["digest"])

    def failed(self, device: Device, toolchain: str, outcome: str, reason: str) -> Measurement:
        """Return a row with the reason of a failure. Its digest prevents another attempt."""
        return Measurement(
            problem=self.problem,
            config=self.config,
            device=device.name,
            target=device.target.name,
            toolchain=toolchain,
            digest=self.digest,
            outcome=outcome,
            reason=reason,
            created_at=datetime.now(UTC),
        )
