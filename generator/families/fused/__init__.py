"""The families `fused` and `block`: two or three convolutions in one kernel."""

from __future__ import annotations

from qconv.generator.families import Family
from qconv.generator.families.fused import config, cost, plan

FAMILY = Family(
    ops=("conv2d_conv2d",),
    config=config.Fused,
    choices=config.CHOICES,
    plan=plan.plan,
    cost=cost.cost,
    promising=config.configs,
    grouped=cost.groups,
    likely=config.LIKELY,
    structure=config.structure,
)
BLOCK_FAMILY = Family(
    ops=("conv2d_conv2d_conv2d",),
    config=config.Block,
    choices=config.BLOCK_CHOICES,
    plan=plan.plan,
    cost=cost.cost,
    promising=config.configs,
    grouped=cost.groups,
    likely=config.BLOCK_LIKELY,
    structure=config.structure,
)
