"""The policy of lookup: for a problem and a device, choose what was tuned for exactly this problem. Otherwise choose
the plan expected to be fastest among the cost model's candidates and the winners of neighbours. Nothing is compiled,
loaded or cached here.

The ranking has the winners of neighbours, configs that differ from one of these in one field, and the cost model's own
best, by expected time.
"""

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
from qconv.instances.choose import Choice, Origin
from qconv.instances.choose.shipped import scaled
from qconv.op import Problem
from qconv.targets.target import Target

if TYPE_CHECKING:
    from qconv.tune_db.layered import Layered
    from qconv.tune_db.measurement import Measurement
from collections.abc import Callable, Sequence

from qconv.generator import Expected
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


# A neighbour's winner is preferred unless another plan is expected to be faster by more than this factor, because the
# winner was measured and the others were not. TRUST_OLDER applies to winners of older templates. Cross-validation by
# network over 377 winners that an H200 also ran on neighbours shows that more trust does not pay once a model is
# corrected. Before that, among neighbours' winners predicted within 1.1 of the model's best, 16 % were the winner there
# too, and of the others one of 86.
TRUST, TRUST_OLDER = 1.02, 1.0
# The same for neighbours with the problem's extents or number of pixels (for example with another activation): the same
# tiles were measured, but perhaps before a faster kernel existed.
TRUST_CLOSEST, UNCORRECTED_CLOSEST = 1.25, 1.5
UNCORRECTED, UNCORRECTED_OLDER = 1.1, 1.05
# Number of plans, fastest expected first, whose neighbours in config space are ranked as well.
WITH_MOVES = 2


@dataclass(frozen=True)
class Transfer:
    """A neighbour's row, with its config planned for another problem."""

    plan: Plan
    row: Measurement
    distance: float

    @property
    def is_closest(self) -> bool:
        return self.distance == 0

    def __str__(self) -> str:
        return f"the winner of {self.row.problem} on {self.row.device}, {self.distance:.1f} doublings away"


@dataclass(frozen=True)
class Ranked:
    """A plan with its expected time. `near` is the winner that it is or differs from in one field, or None for the cost
    model's own plans."""

    plan: Plan
    expected: Expected
    near: Transfer | None = None

    trust: float = 1.0

    @property
    def is_transfer(self) -> bool:
        return self.near is not None and self.near.plan.config == self.plan.config

    def __str__(self) -> str:
        if self.near is None:
            what = "the cost model's own best"
        else:
            what = f"{'' if self.is_transfer else 'one field from '}{self.near}"
        # The models describe GPUs. For the CPU device they predict which plan is better, but not its time.
        return what if self.plan.target.vendor == "cpu" else f"{what}, expected {self.expected}"


IsNewest = Callable[[Measurement], bool]


def ranked(own: Sequence[Plan], transfers: Sequence[Transfer], is_newest: IsNewest) -> list[Ranked]:
    """Rank the plans, best first; among equals, the nearest neighbour's first. `is_newest` tells whether today's
    templates generate what was measured. It is called only for plans that may be chosen, because rendering is the
    slowest step."""
    plans = [*(transfer.plan for transfer in transfers), *own]
    near = [*transfers, *([None] * len(own))]
    first = [Ranked(*one) for one in zip(plans, generator.expected(plans), near, strict=True)]
    best = sorted(_each_once([replace(one, trust=_trust(one)) for one in first]), key=_trusted_us)
    others = [(plan, one.near) for one in best[:WITH_MOVES] for plan in moved(one.plan)]
    times = generator.expected([plan for plan, _ in others])
    moves = [Ranked(plan, us, of) for (plan, of), us in zip(others, times, strict=True)]
    return _by_their_templates(sorted(_each_once([*best, *moves]), key=_trusted_us), is_newest)


def _each_once(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Keep the first entry of each config."""
    return list({one.plan.config: one for one in reversed(ranked)}.values())[::-1]


def _trusted_us(one: Ranked) -> float:
    return one.expected.us / one.trust


def _trust(one: Ranked) -> float:
    if one.near is None:
        return 1.0
    if one.is_transfer and one.near.is_closest:
        return TRUST_CLOSEST if one.expected.is_corrected else UNCORRECTED_CLOSEST
    return TRUST if one.expected.is_corrected else UNCORRECTED


def _by_their_templates(order: list[Ranked], is_newest: IsNewest) -> list[Ranked]:
    looked_at: set[Config] = set()
    while (first := order[0]).near is not None and first.is_transfer and first.plan.config not in looked_at:
        looked_at.add(first.plan.config)
        if not (first.near.is_closest or is_newest(first.near.row)):
            trust = TRUST_OLDER if first.expected.is_corrected else UNCORRECTED_OLDER
            order = sorted([replace(first, trust=trust), *order[1:]], key=_trusted_us)
    return order


def moved(plan: Plan) -> Iterator[Plan]:
    """Generate the feasible configs in which one field has the previous or next of its choices."""
    config = plan.config
    for name, values in generator.families(plan.problem)[config.family].choices.items():
        at = values.index(getattr(config, name))
        for other in (*values[max(0, at - 1) : at], *values[at + 1 : at + 2]):
            try:
                yield generator.plan(plan.problem, replace(config, **{name: other}), plan.target)
            except Infeasible:
                continue
