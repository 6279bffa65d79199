"""Ranking of plans for an untuned problem by expected time: the winners of its neighbours, configs that differ from one
of these in one field, and the cost model's own best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Config, Expected, Plan
from qconv.tune_db.measurement import Measurement

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
