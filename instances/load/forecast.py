"""Forecasts: the choice of a lookup for a device that is not here, and its time. Nothing is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qconv import generator
from qconv.generator import Expected
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import choose
from qconv.instances.load.building import places
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.targets.target import Target

if TYPE_CHECKING:
    from qconv.tune_db.layered import Source


@dataclass(frozen=True)
class Forecast:
    """A choice for a device. `device` is the name under which winners were stored, empty where there are none."""

    device: str
    choice: Choice

    @property
    def expected(self) -> Expected | None:
        """Return the expected time. None where the costs of the op are not times, and for GPUs to which no cost model
        is fitted."""
        plan = self.choice.plan
        if not self.device or not generator.predicts_time(plan.problem):
            return None
        return self.choice.expected or generator.expected([plan])[0]

    @property
    def time(self) -> str:
        if self.choice.measured_us is not None:
            return f"measured: {self.choice.measured_us:.2f} us"
        if self.expected is not None:
            return f"expected: {self.expected}"
        return "its time there is not known: the cost models are fitted to the NVIDIA H200, and order configs elsewhere"

    def as_dict(self) -> dict[str, Any]:
        plan, expected = self.choice.plan, self.expected
        return {
            "problem": str(plan.problem),
            "device": self.device or None,
            "target": plan.target.name,
            "origin": self.choice.origin,
            "reason": self.choice.reason,
            "config": plan.config.as_dict(),
            "measured_us": self.choice.measured_us,
            "expected_us": None if expected is None else expected.us,
        }


def forecast(problem: Problem, target: Target, db: str | Source | None = None) -> Forecast:
    """Choose a plan for a target: with the winners of the first device that has any, or else by the cost model."""
    place = places(target, None)[0]
    with open_layers(db, place) as layers:
        return Forecast(place.name, choose(problem, place, layers))
