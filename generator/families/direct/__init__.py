"""The `direct` family: grouped convolutions with few channels per group, on matrix instructions. A tile of the input is
loaded into shared memory once for all taps. One matrix contains the filters of several groups, with zeros between the
groups."""

from __future__ import annotations

from collections.abc import Mapping

from qconv.generator import tiles
from qconv.generator.families import Family
from qconv.generator.families.direct.config import CHOICES, LIKELY, Direct, multiplies_floats, why_none
from qconv.generator.families.direct.cost import cost
from qconv.generator.families.direct.plan import DirectPlan, plan

__all__ = ["FAMILY", "Direct", "DirectPlan"]


def features(plan: DirectPlan) -> Mapping[str, float]:
    """Return the inputs for the cost model's correction."""
    # A feature more, so that a correction that is fitted to bytes alone is none of floats.
    of_floats = {"parts": float(plan.slab.parts)} if multiplies_floats(plan.problem) else {}
    return tiles.features(plan) | of_floats


FAMILY = Family(
    ops=("conv2d",),
    config=Direct,
    choices=CHOICES,
    plan=plan,
    cost=cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
