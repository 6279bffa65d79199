"""A plan that is being measured: nobody has chosen it yet."""

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
    """It is rendered once, by the tuner: the same text is compiled ahead, sent to the worker, and named by its digest
    in the row, whether that is a time or a failure. `sources` has one for each of `plan.kernels`."""

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
        """What the worker is sent beside the problem."""
        sources = [asdict(source) for source in self.sources]
        return {"config": self.config.as_json(), "sources": sources, "digest": self.digest}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], problem: Problem, target: Target) -> Candidate:
        plan = generator.plan(problem, generator.config_from_json(values["config"]), target)
        return cls(plan, tuple(Source(**source) for source in values["sources"]), values["digest"])

    def failed(self, device: Device, toolchain: str, outcome: str, reason: str) -> Measurement:
        """A row that says why it has no time; with its digest, so that it is not tried again."""
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
