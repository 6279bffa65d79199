"""Turn a problem, a config and a target into a plan, and a plan into source text. Needs no GPU and no compiler."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from qconv import plugins
from qconv.errors import Infeasible
from qconv.generator.cost_units import CLOCK_MHZ
from qconv.generator.expect import Correction, Expected, Model, stored
from qconv.generator.families import (
    Family,
    depthwise,
    direct,
    fused,
    gemv,
    halo,
    mma,
    pointwise,
    simt,
    stem,
    stem_pool,
    stem_wgmma,
    tcgen05,
    unfused,
    wgmma,
)
from qconv.generator.families.conversion import choosing, elementwise
from qconv.generator.families.expression import attention, matmul, matmul_mma, reduce
from qconv.generator.families.expression import map as mapping
from qconv.generator.families.tensor_ops import argmax, binary, concat, global_pooling, nms, pooling, shuffle, table
from qconv.generator.plan import Config, Plan
from qconv.generator.selection import cheapest_of
from qconv.generator.source import Rendered, Source, joined, render, render_kernels
from qconv.op import Problem, quoted
from qconv.targets.target import Target

__all__ = [
    "Config",
    "Expected",
    "Plan",
    "Rejected",
    "Rendered",
    "Source",
    "cheapest",
    "config_from_json",
    "cost",
    "default",
    "every_family",
    "expected",
    "families",
    "fastest",
    "joined",
    "model",
    "plan",
    "predicted_us",
    "predicts_time",
    "render",
    "render_kernels",
    "space",
    "unfused_plan",
]


# Plans per family, cheapest first by its cost model, that `default` ranks again with the models' errors corrected.
RANKED = 32

# The families of this package.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        simt.FAMILY,
        mma.FAMILY,
        depthwise.FAMILY,
        direct.FAMILY,
        stem.FAMILY,
        stem_wgmma.FAMILY,
        stem_pool.FAMILY,
        gemv.FAMILY,
        pointwise.FAMILY,
        wgmma.FAMILY,
        halo.FAMILY,
        halo.SPLIT_FAMILY,
        tcgen05.FAMILY,
        fused.FAMILY,
        fused.BLOCK_FAMILY,
        unfused.family(lambda problem, config, target: plan(problem, config, target), lambda plan: cost(plan)),
        elementwise.FAMILY,
        choosing.FAMILY,
        binary.FAMILY,
        table.FAMILY,
        concat.FAMILY,
        pooling.FAMILY,
        global_pooling.FAMILY,
        argmax.FAMILY,
        shuffle.FAMILY,
        nms.FAMILY,
        mapping.FAMILY,
        reduce.FAMILY,
        matmul.FAMILY,
        matmul_mma.FAMILY,
        attention.FAMILY,
    )
}


@dataclass(frozen=True)
class Rejected:
    config: Config
    reason: str


def every_family() -> dict[str, Family]:
    """Return all families by name: those of this package, then those of others."""
    return FAMILIES | dict(plugins.loaded(plugins.FAMILIES, Family, FAMILIES))


def _family(name: str) -> Family:
    return FAMILIES.get(name) or every_family()[name]


def families(problem: Problem) -> dict[str, Family]:
    """Return the families that serve problems of this kind, by name."""
    return {name: family for name, family in every_family().items() if family.why_not(problem) is None}


def plan(problem: Problem, config: Config, target: Target) -> Plan:
    """Plan the config for the problem. Raises Infeasible, with the reason, where the config cannot serve it."""
    family = _family(config.family)
    if (why := family.why_not(problem)) is not None:
        raise Infeasible(f"the family {config.family} {why}: use {', '.join(families(problem))}")
    return family.plan(problem, config, target)


def cost(plan: Plan) -> float:
    """Return the cost model's estimate for all launches of a plan, in clocks of one multiprocessor."""
    return _family(plan.config.family).cost(plan)


def predicts_time(problem: Problem) -> bool:
    """True where every family that serves the problem has a cost model in clocks, so that `predicted_us` is a time."""
    return all(family.predicts_time for family in families(problem).values())


def predicted_us(plan: Plan) -> float:
    """Return the predicted time at the clock of an H200, to which the cost models are fitted. For other GPUs only the
    ratio of two predictions is meaningful."""
    return cost(plan) / CLOCK_MHZ


def space(problem: Problem, target: Target, likely: bool = False) -> tuple[list[Plan], list[Rejected]]:
    """Plan every config (or every likely config) of the op's families. Return the feasible plans, cheapest first, and
    the rejected configs with their reasons."""
    feasible: list[tuple[float, Plan]] = []
    rejected: list[Rejected] = []
    for family in families(problem).values():
        for config in family.configs(problem, target, likely):
            try:
                made = family.plan(problem, config, target)
            except Infeasible as reason:
                rejected.append(Rejected(config, str(reason)))
            else:
                feasible.append((family.cost(made), made))
    feasible.sort(key=lambda pair: pair[0])
    return [made for _, made in feasible], rejected


@lru_cache(maxsize=32)
def cheapest(problem: Problem, target: Target, most: int) -> tuple[Plan, ...]:
    """Return the `most` cheapest plans of each family by its cost model: likely configs if any is feasible, otherwise
    all."""
    why_not: list[str] = []
    for likely in (True, False):
        found = [cheapest_of(family, problem, target, likely, most) for family in families(problem).values()]
        if any(one.plans for one in found):
            # The family with the cheapest plan comes first.
            order = sorted((one.plans for one in found if one.plans), key=lambda plans: plans[0].cost)
            return tuple(one.plan for plans in order for one in plans)
        why_not = [one.why_not for one in found if one.why_not is not None]
    if problem.parts:
        return ()
    raise Infeasible(f"no kernel can serve {problem} on {target.name}; for instance: {why_not[0]}")


@lru_cache(maxsize=256)
def default(problem: Problem, target: Target) -> Plan:
    """Return the plan to use where no similar problem was tuned: the fastest expected of each family's cheapest
    plans."""
    plans = [*cheapest(problem, target, RANKED), *([unfused_plan(problem, target)] if problem.parts else [])]
    return fastest(plans)


def fastest(plans: Sequence[Plan]) -> Plan:
    """Return the plan with the least expected time, the first among equals. Costs that are not times only order the
    plans of one family."""
    if not predicts_time(plans[0].problem):
        return min(plans, key=cost)
    return min(zip(expected(plans), plans, strict=True), key=lambda pair: pair[0].us)[1]


def model(correction: Callable[[str], Correction | None] = stored) -> Model:
    """Build the model of expected times: the cost models, corrected by the shipped corrections or by `correction`."""
    return Model(every_family(), correction)


def expected(plans: Sequence[Plan]) -> list[Expected]:
    """Return the time that each plan is expected to take on an H200, to which the models are fitted."""
    return model().expected(plans)


def unfused_plan(problem: Problem, target: Target, best: Callable[[Problem], Config] | None = None) -> Plan:
    """Plan a chain as separate kernels: the first convolution, then the rest, each with the config that `best` returns,
    or else with its default."""
    best = best or (lambda one: default(one, target).config)
    first, rest = problem.parts
    return plan(problem, unfused.Unfused(best(first), best(rest)), target)


def config_from_json(text: str) -> Config:
    """Parse the config of a database row or of a manifest. Only an object of integers under a family's own field names,
    or of two such configs, is accepted."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the config {text[:120]!r} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"the config {text[:120]!r} is not a JSON object")
    name = str(values.pop("family", None))
    if name == unfused.Unfused.family:
        return _unfused_from(values, text)
    family = FAMILIES.get(name) or every_family().get(name)
    if family is None:
        raise ValueError(f"the config {text[:100]!r} names no known family ({', '.join(every_family())})")
    names = set(family.choices)
    if set(values) != names:
        raise ValueError(f"the config {text[:120]!r} must have exactly the fields {', '.join(sorted(names))}")
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name}={quoted(value)} in the config must be an integer")
    return family.config(**values)


def _unfused_from(values: dict[str, object], text: str) -> Config:
    """Parse the config of an unfused chain, whose fields are configs instead of integers."""
    if set(values) != {"first", "second"}:
        raise ValueError(f"the config {text[:120]!r} must have exactly the fields first, second, each of them a config")
    try:
        return unfused.Unfused(*(config_from_json(json.dumps(values[layer])) for layer in ("first", "second")))
    except RecursionError:
        raise ValueError(f"the config {text[:120]!r} nests too deep; a chain has at most three convolutions") from None
