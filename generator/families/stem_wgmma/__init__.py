"""The families `stem_wgmma` and `stem_pool`: first layers of few channels on `wgmma`, alone or with a max pool."""

from __future__ import annotations

from qconv.generator.families.stem_wgmma import cost, plan, pool
from qconv.generator.family import Family

FAMILY = Family(
    ops=("conv2d",),
    config=plan.StemWgmma,
    choices=plan.CHOICES,
    plan=plan.plan,
    cost=cost.cost,
    why_none=plan.why_none,
    structure=plan.structure,
)
POOL_FAMILY = Family(
    ops=("conv2d_pool",),
    config=pool.StemPool,
    choices=pool.CHOICES,
    plan=pool.plan,
    cost=pool.cost,
    why_none=pool.why_none,
    structure=pool.structure,
)
