"""The policy of lookup: for a problem and a device, choose what was tuned for exactly this problem. Otherwise choose
the plan expected to be fastest among the cost model's candidates and the winners of neighbours. Nothing is compiled,
loaded or cached here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Protocol

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Config, Plan, Rendered
from qconv.instances.choose.choice import Choice, Origin
from qconv.instances.choose.ranking import Transfer, ranked
from qconv.instances.choose.shipped import scaled
from qconv.op import Problem
from qconv.targets.target import Target

if TYPE_CHECKING:
    from qconv.tune_db.layered import Layered
    from qconv.tune_db.measurement import Measurement

log = logging.getLogger("qconv")

# Distance beyond which a neighbour's config tells less than the cost model. One unit is a factor of two in one extent.
FARTHEST = 4.0
# The same for chains. Their model is accurate to a tenth, so only a close neighbour's config tells more.
FARTHEST_CHAIN = 1.0
# Neighbours whose winners are ranked.
NEIGHBOURS = 8

TUNE = "run qconv-tune tune for a measured winner"
# Factor up to which a row of today's templates is preferred to a faster row of older ones: a change of a template
# seldom changes more.
ABOUT_AS_FAST = 1.25


class Place(Protocol):
    """The properties of a device that a choice depends on. The device need not be present."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> Target: ...


def choose(problem: Problem, device: Place, layers: Layered, in_sequence: bool = False) -> Choice:
    """Choose a plan. With `in_sequence`, for a network whose launches overlap, a config that the race of a network kept
    is preferred to the fastest by itself."""
    kept = _kept(problem, device, layers) if in_sequence else None
    return kept or _exact(problem, device, layers) or _untuned(problem, device, layers)


@dataclass(frozen=True)
class Tuned:
    """A row's config, planned and rendered by today's templates."""

    plan: Plan
    row: Measurement
    rendered: Rendered

    @property
    def is_as_measured(self) -> bool:
        return self.rendered.digest == self.row.digest

    def choice(self, note: str = "") -> Choice:
        row = self.row
        reason = f"exact: tuned at {row.median_us:.2f} us on {row.created_at:%Y-%m-%d}{note}"
        measured_us = row.median_us if self.is_as_measured else None
        return Choice(self.plan, "exact", reason, row.toolchain, self.rendered.sources, measured_us)


def _untuned(problem: Problem, device: Place, layers: Layered) -> Choice:
    """Rank the neighbours' winners, configs near them and the cost model's best by expected time. Where the costs of
    the op are not times, the nearest winner is chosen without ranking."""
    transfers = list(islice(_transfers(problem, device, layers), NEIGHBOURS))
    if transfers and not generator.predicts_time(problem):
        return Choice(transfers[0].plan, "nearest", f"nearest: {transfers[0]}")
    own = _own(problem, device, layers)
    if not generator.predicts_time(problem):
        return Choice(generator.fastest(own), "default", f"default: the cheapest by the cost model; {TUNE}")
    order = ranked(own, transfers, lambda row: _is_newest(row, device.target))
    order = [replace(one, expected=scaled(one.expected, one.plan, device.name)) for one in order]
    best, others = order[0], [one for one in order[1:] if (one.near is None) != (order[0].near is None)]
    origin: Origin = "default" if best.near is None else "nearest"
    beside = f"; {others[0]}" if others else "; nothing near of its kind was tuned"
    return Choice(best.plan, origin, f"{origin}: {best}{beside}; {TUNE}", expected=best.expected)


def _own(problem: Problem, device: Place, layers: Layered) -> list[Plan]:
    """Return the cost model's cheapest plans, and for a chain the unfused plan of its parts' tuned configs or
    defaults."""
    own = list(generator.cheapest(problem, device.target, generator.RANKED))
    if not problem.parts:
        return own

    def best(one: Problem) -> Config:
        tuned = _exact(one, device, layers)
        return (generator.default(one, device.target) if tuned is None else tuned.plan).config

    return [*own, generator.unfused_plan(problem, device.target, best)]


def _is_newest(row: Measurement, target: Target) -> bool:
    tuned = _tuned(row.problem, row, target)
    return tuned is not None and tuned.is_as_measured


def _transfers(problem: Problem, device: Place, layers: Layered) -> Iterator[Transfer]:
    """Generate the winners of neighbours, nearest first. Where a larger problem's winner is infeasible here, take its
    fastest feasible row that is about as fast."""
    target = device.target
    farthest = FARTHEST_CHAIN if problem.parts else FARTHEST
    for distance, neighbour in layers.near(problem, device.name, target.name, farthest):
        fastest_us = 0.0
        for row in layers.ranked(neighbour, device.name, target.name):
            fastest_us = fastest_us or row.median_us or 0.0
            if (row.median_us or 0.0) > ABOUT_AS_FAST * fastest_us:
                break
            if (fitting := _planned(problem, row, target)) is not None:
                yield Transfer(fitting, row, distance)
                break


def _exact(problem: Problem, device: Place, layers: Layered) -> Choice | None:
    """Choose the best row. If its templates have changed since, prefer a row of today's that is about as fast."""
    target = device.target
    best = layers.best(problem, device.name, target.name)
    if best is None:
        return None
    tuned = _tuned(problem, best, target)
    if tuned is not None and tuned.is_as_measured:
        return tuned.choice()
    worth = inf if tuned is None else ABOUT_AS_FAST * (best.median_us or 0.0)
    for row in layers.ranked(problem, device.name, target.name):
        if (row.median_us or 0.0) > worth:
            continue
        other = _tuned(problem, row, target)
        if other is not None and other.is_as_measured:
            return other.choice()
    if tuned is None:
        log.warning("%s: the tuned config %s is no longer feasible", problem, best.config)
        return None
    return tuned.choice(", on an older template: tune again for a measured winner")


def _kept(problem: Problem, device: Place, layers: Layered) -> Choice | None:
    """Choose the config that a network's race kept, if its source is today's. The time of another source among other
    launches says little."""
    row = layers.kept(problem, device.name, device.target.name)
    tuned = None if row is None else _tuned(problem, row, device.target)
    if tuned is None or not tuned.is_as_measured:
        return None
    row = tuned.row
    reason = f"exact: kept in a network's race at {row.median_us:.2f} us in sequence on {row.created_at:%Y-%m-%d}"
    return replace(tuned.choice(), reason=reason, is_kept=True)


def _tuned(problem: Problem, row: Measurement, target: Target) -> Tuned | None:
    plan = _planned(problem, row, target)
    return None if plan is None else Tuned(plan, row, generator.render_kernels(plan))


def _planned(problem: Problem, row: Measurement, target: Target) -> Plan | None:
    """Plan the row's config for this problem, which may differ from the row's own. None where it is infeasible."""
    try:
        return generator.plan(problem, row.config, target)
    except Infeasible:
        return None
