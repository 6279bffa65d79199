"""The `depthwise` family: each output channel filters one input channel. It is bound by memory: a thread loads inputs
from device memory into registers and uses them for all of its outputs. Of bytes, four taps are one dot product; floats
are multiplied one by one."""

from __future__ import annotations

from qconv.generator.expect.features import filled, log, rounds
from qconv.generator.families import Family
from qconv.generator.families.depthwise.config import CHOICES, LIKELY, Depthwise
from qconv.generator.families.depthwise.plan import DepthwisePlan, plan, why_none

__all__ = ["FAMILY", "Depthwise", "DepthwisePlan"]


def features(plan: DepthwisePlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    problem, config, processors = plan.problem, plan.config, plan.target.processors
    of_thread = config.rows * config.columns
    # A feature more, so that a correction that is fitted to bytes alone is none of floats.
    of_floats = {} if plan.products.dots else {"of_pixel": log(plan.products.of_pixel)}
    return {
        "rows_filled": filled(problem.oh, config.rows),
        "columns_filled": filled(problem.ow, config.columns),
        "registers": log(plan.products.register_words),
        "outputs": log(of_thread * config.vector),
        "overlap": plan.in_rows * plan.in_columns / of_thread,
        "gathers": float(plan.gathers),
        **rounds("rounds", "last_round", plan.blocks / (plan.resident * processors)),
        "warps_per_sm": log(plan.units / processors / plan.target.warp_size),
        "threads_filled": filled(plan.units, config.threads),
        "vectors": log(plan.vectors),
        **of_floats,
    }


FAMILY = Family(
    ops=("conv2d",),
    config=Depthwise,
    choices=CHOICES,
    plan=plan,
    cost=DepthwisePlan.cost,
    features=features,
    why_none=why_none,
    likely=LIKELY,
)
