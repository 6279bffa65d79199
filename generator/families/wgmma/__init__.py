"""The family `wgmma`: implicit GEMM by persistent blocks on Hopper's warpgroup instructions."""

from __future__ import annotations

from qconv.generator.families.wgmma import cost, plan
from qconv.generator.family import Family

FAMILY = Family(
    ops=("conv2d",),
    config=plan.Wgmma,
    choices=plan.CHOICES,
    plan=plan.plan,
    cost=cost.cost,
    features=plan.features,
    why_none=plan.why_none,
    structure=plan.structure,
)
