"""The family `tcgen05`: implicit GEMM by persistent blocks on Blackwell's tensor memory."""

from __future__ import annotations

from qconv.generator.families.tcgen05 import cost, plan
from qconv.generator.family import Family

FAMILY = Family(
    ops=("conv2d",),
    config=plan.Tcgen05,
    choices=plan.CHOICES,
    plan=plan.plan,
    cost=cost.cost,
    why_none=plan.why_none,
    structure=plan.structure,
)
