"""problem + device -> choice: what was tuned for exactly this problem, or else what is expected to be fastest of what
the cost model proposes and of the winners of neighbours. Policy alone: nothing is compiled, loaded, remembered here."""

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

# Beyond this distance a neighbour's config tells less than the cost model. One unit is a factor of two in one extent.
FARTHEST = 4.0
# The model of one kernel for several is right to a tenth, so that only a close neighbour's config tells more.
FARTHEST_CHAIN = 1.0
# How many neighbours' winners are ranked.
NEIGHBOURS = 8

TUNE = "run qconv-tune tune for a measured winner"
# What was measured on today's templates goes before what was faster on older ones, up to here: a change of a template
# seldom changes more.
ABOUT_AS_FAST = 1.25


class Place(Protocol):
    """All that choosing asks of a device: it need not be there."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> Target: ...


def choose(problem: Problem, device: Place, layers: Layered, in_sequence: bool = False) -> Choice:
    """`in_sequence`: for a network, whose launches overlap. What the race of a network kept goes before what was
    fastest by itself then."""
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
    """Neighbours' winners, what is near them and the cost model's best, ranked by what they are expected to take. The
    model is not asked of an op whose costs are no times."""
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
    """The cost model's, and for a chain what was tuned for its parts, or else their defaults."""
    own = generator.cheapest(problem, device.target, generator.RANKED)
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
    """The nearest neighbour first: of each the winner. A larger problem's may be too large a tile for this one; then
    the fastest that fits, if it is about as fast."""
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
    """The best row; where the templates have changed since, a row of today's before it, if it is about as fast."""
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
    """Today's source alone: what another one took among other launches says little."""
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
    """The row's config for this problem, which need not be the row's own; None where it is not feasible."""
    try:
        return generator.plan(problem, row.config, target)
    except Infeasible:
        return None
