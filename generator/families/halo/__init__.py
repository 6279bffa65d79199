"""The families `halo` and `halo_split`: persistent blocks whose weights stay in shared memory, and windows that come
by TMA."""

from __future__ import annotations

from qconv.generator.families import Family
from qconv.generator.families.halo import config, cost, plan, split

FAMILY = Family(
    ops=("conv2d",),
    shuffles=True,
    reads_frames=True,
    config=config.Halo,
    choices=config.CHOICES,
    plan=plan.plan,
    cost=cost.cost,
    features=plan.features,
    promising=config.promising,
    why_none=config.why_none,
    structure=config.structure,
)
SPLIT_FAMILY = Family(
    ops=("conv2d",),
    shuffles=True,
    config=split.HaloSplit,
    choices=split.CHOICES,
    plan=split.plan,
    cost=cost.cost,
    features=plan.features,
    why_none=split.why_none,
    structure=split.structure,
)
