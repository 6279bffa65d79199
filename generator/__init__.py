"""problem + config + target -> plan -> source. Needs no GPU and no compiler."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from qconv.errors import Infeasible
from qconv.generator.cost_units import CLOCK_MHZ
from qconv.generator.expect.correction import Correction, Expected, Model, stored
from qconv.generator.families import (
    depthwise,
    direct,
    fused,
    gemv,
    halo,
    mma,
    pointwise,
    simt,
    stem,
    stem_wgmma,
    tcgen05,
    unfused,
    wgmma,
)
from qconv.generator.families.conversion import choosing, elementwise
from qconv.generator.families.tensor_ops import argmax, binary, concat, global_pooling, pooling, shuffle, table
from qconv.generator.family import Family
from qconv.generator.plan import Config, Plan
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


# So many of a family's cheapest by its cost model are looked at once more, with what is known of its errors.
RANKED = 32

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        simt.FAMILY,
        mma.FAMILY,
        depthwise.FAMILY,
        direct.FAMILY,
        stem.FAMILY,
        stem_wgmma.FAMILY,
        stem_wgmma.POOL_FAMILY,
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
    )
}


@dataclass(frozen=True)
class Rejected:
    config: Config
    reason: str


def families(problem: Problem) -> dict[str, Family]:
    """The families that serve the op."""
    return {name: family for name, family in FAMILIES.items() if problem.op in family.ops}


def plan(problem: Problem, config: Config, target: Target) -> Plan:
    """Raises Infeasible, with the reason, where this config cannot serve the problem."""
    family = FAMILIES[config.family]
    if problem.op not in family.ops:
        others = ", ".join(families(problem))
        raise Infeasible(f"the family {config.family} does not serve {problem.op}: use {others}")
    return family.plan(problem, config, target)


def cost(plan: Plan) -> float:
    """By the family's cost model: about how long the launches take, in clocks of a multiprocessor."""
    return FAMILIES[plan.config.family].cost(plan)


def predicts_time(problem: Problem) -> bool:
    """Whether the cost models of all families that serve it predict a time, so that `predicted_us` says something."""
    return all(family.predicts_time for family in families(problem).values())


def predicted_us(plan: Plan) -> float:
    """What the cost model expects, at the clock of the GPU that it is fitted to: of another one, only the ratio of two
    predictions says something."""
    return cost(plan) / CLOCK_MHZ


def space(problem: Problem, target: Target, likely: bool = False) -> tuple[list[Plan], list[Rejected]]:
    """Every config (or every likely one) of the op's families: the feasible ones as plans, cheapest first, and why the
    others are not."""
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


def cheapest(problem: Problem, target: Target, most: int) -> list[Plan]:
    """So many plans of each family, the cheapest by its cost model; of the likely, where any of them serves."""
    rejected: list[Rejected] = []
    for likely in (True, False):
        feasible, rejected = space(problem, target, likely)
        if feasible:
            families: dict[str, list[Plan]] = {}
            for one in feasible:
                families.setdefault(one.config.family, []).append(one)
            return [one for own in families.values() for one in own[:most]]
    if problem.parts:
        return []
    raise Infeasible(f"no kernel can serve {problem} on {target.name}; for instance: {rejected[0].reason}")


@lru_cache(maxsize=256)
def default(problem: Problem, target: Target) -> Plan:
    """What is used where nothing was tuned nearby: what is expected to be fastest of each family's cheapest."""
    plans = [*cheapest(problem, target, RANKED), *([unfused_plan(problem, target)] if problem.parts else [])]
    return fastest(plans)


def fastest(plans: Sequence[Plan]) -> Plan:
    """By what is expected of each; of equals the first. Costs that are no times order one family's plans alone."""
    if not predicts_time(plans[0].problem):
        return min(plans, key=cost)
    return min(zip(expected(plans), plans, strict=True), key=lambda pair: pair[0].us)[1]


def model(correction: Callable[[str], Correction | None] = stored) -> Model:
    """The cost models, corrected by what is shipped or by others."""
    return Model(FAMILIES, correction)


def expected(plans: Sequence[Plan]) -> list[Expected]:
    """The time that each plan is expected to take on the GPU that the models are fitted to."""
    return model().expected(plans)


def unfused_plan(problem: Problem, target: Target, best: Callable[[Problem], Config] | None = None) -> Plan:
    """The first in a kernel of its own, and the rest: the best that are known, or else the defaults."""
    best = best or (lambda one: default(one, target).config)
    first, rest = problem.parts
    return plan(problem, unfused.Unfused(best(first), best(rest)), target)


def config_from_json(text: str) -> Config:
    """The config that a database row or a manifest holds. Anything but an object of known integers, or of two such
    configs, is refused."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the config {text[:120]!r} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"the config {text[:120]!r} is not a JSON object")
    name = str(values.pop("family", None))
    if name == unfused.Unfused.family:
        return _unfused_from(values, text)
    family = FAMILIES.get(name)
    if family is None:
        raise ValueError(f"the config {text[:120]!r} names no known family ({', '.join(FAMILIES)})")
    names = set(family.choices)
    if set(values) != names:
        raise ValueError(f"the config {text[:120]!r} must have exactly the fields {', '.join(sorted(names))}")
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name}={quoted(value)} in the config must be an integer")
    return family.config(**values)


def _unfused_from(values: dict[str, object], text: str) -> Config:
    """From what stands beside the family's name: its fields are configs, not integers."""
    if set(values) != {"first", "second"}:
        raise ValueError(f"the config {text[:120]!r} must have exactly the fields first, second, each of them a config")
    try:
        return unfused.Unfused(*(config_from_json(json.dumps(values[layer])) for layer in ("first", "second")))
    except RecursionError:
        raise ValueError(f"the config {text[:120]!r} nests too deep; a chain has at most three convolutions") from None
