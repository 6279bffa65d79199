"""problem + device -> choice: what was tuned for exactly this problem, or else what the cost model thinks best of its
own proposal and of the winners of neighbours. Policy alone: nothing is compiled, loaded or remembered here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Protocol

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan, Rendered
from qconv.instances.choice import Choice
from qconv.op import Problem
from qconv.target import Target

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
# A neighbour's winner goes before the cost model's own best up to so many times its predicted time, for it was measured
# and the other was not. Of 197 transfers between the H200's winners of one kind, 16 % of those predicted within 1.1 of
# the model's best were the winner there as well (the model's best was in 15 %), of the others one of 86.
TRUST = 1.1
# The same where the neighbour was measured on an older template.
TRUST_OLDER = 1.05

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


def choose(problem: Problem, device: Place, layers: Layered) -> Choice:
    return _exact(problem, device, layers) or _untuned(problem, device, layers)


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


@dataclass(frozen=True)
class Transfer:
    """A neighbour's row, its config planned for another problem."""

    plan: Plan
    row: Measurement
    distance: float

    def __str__(self) -> str:
        return f"the winner of {self.row.problem}, {self.distance:.1f} doublings away"


def _untuned(problem: Problem, device: Place, layers: Layered) -> Choice:
    """Neighbours' winners and the cost model's best, ranked by the cost model. It is not asked where a neighbour has
    the very same extents (another activation, say), nor of an op whose costs are no times."""
    transfers = list(islice(_transfers(problem, device, layers), NEIGHBOURS))
    if transfers and (transfers[0].distance == 0 or not generator.predicts_time(problem)):
        return Choice(transfers[0].plan, "nearest", f"nearest: {transfers[0]}")
    own = generator.default(problem, device.target)
    if not transfers:
        return Choice(own, "default", f"default: by the cost model, nothing near of its kind was tuned; {TUNE}")
    own_us = generator.predicted_us(own)
    times = [(generator.predicted_us(transfer.plan), transfer) for transfer in transfers]
    # Rendering a neighbour's source tells how far it is trusted: only where that may decide. Of equals the nearest,
    # which comes first.
    within = [(us / _trust(one.row, device.target), us, one) for us, one in times if us <= own_us * TRUST]
    trusted_us, us, best = min(within or [(us, us, one) for us, one in times], key=lambda one: one[0])
    if trusted_us <= own_us:
        reason = f"nearest: {best}, predicted {us:.1f} us; the cost model's own best {own_us:.1f} us"
        return Choice(best.plan, "nearest", reason)
    reason = f"default: the cost model's own best, predicted {own_us:.1f} us; {best}, {us:.1f} us; {TUNE}"
    return Choice(own, "default", reason)


def _trust(row: Measurement, target: Target) -> float:
    """How many times the predicted time of the cost model's best a neighbour's may be."""
    tuned = _tuned(row.problem, row, target)
    return TRUST if tuned is not None and tuned.is_as_measured else TRUST_OLDER


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


def _tuned(problem: Problem, row: Measurement, target: Target) -> Tuned | None:
    plan = _planned(problem, row, target)
    return None if plan is None else Tuned(plan, row, generator.render_kernels(plan))


def _planned(problem: Problem, row: Measurement, target: Target) -> Plan | None:
    """The row's config for this problem, which need not be the row's own; None where it is not feasible."""
    try:
        return generator.plan(problem, row.config, target)
    except Infeasible:
        return None
