"""The family `mma`: implicit GEMM by warps on matrix instructions, for NVIDIA and AMD."""

from __future__ import annotations

from qconv.generator.families import Family
from qconv.generator.families.mma import amd, config, nvidia, plan


def _cost(planned: plan.MmaPlan) -> float:
    """Return the cost by the vendor's model."""
    return nvidia.cost(planned) if planned.target.buffer_word is None else amd.cost(planned)


FAMILY = Family(
    ops=("conv2d",),
    shuffles=True,
    config=config.Mma,
    choices=config.CHOICES,
    plan=plan.plan,
    cost=_cost,
    features=plan.features,
    promising=config.configs,
    likely=config.LIKELY,
)
