"""Trials and seconds of a whole workload, spread over its problems: where the time is, a trial is worth more.

A problem's stake is what the network spends in it: its best time so far, or else the predicted one, as often as the
network computes it. Every problem gets a few trials first, so that its stake is measured; what is left is spread in
proportion to the stakes. The rows of earlier runs count, so that a run that goes on does what the first had left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from numbers import Integral, Real

from qconv.op import quoted

# The default, what lookup would give, and the cost model's next: after these a problem's time is no longer a guess.
FIRST_TRIALS = 8
DAY_S = 86400.0


@dataclass(frozen=True)
class Budget:
    """`trials` is what a problem gets on average; `seconds` is for all of them together; `target` ends the trials of a
    problem when the next is expected to shorten its best time by fewer per cent. Whichever comes first ends the tuning;
    what is not given ends nothing."""

    trials: int | None = None
    seconds: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None and self.target is None:
            raise ValueError("a budget of nothing: give trials, seconds, a target, or several of them")
        for name in ("seconds", "target"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise ValueError(f"{name}={quoted(value)} must be a number")
        if self.trials is not None and (isinstance(self.trials, bool) or not isinstance(self.trials, Integral)):
            raise ValueError(f"trials={quoted(self.trials)} must be an integer, or a qconv.Budget with seconds")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"trials={self.trials} must be at least 1: a problem without a trial is not tuned")
        if self.seconds is not None and not 0 < self.seconds <= DAY_S:
            raise ValueError(f"seconds={self.seconds:g} must be above 0, and at most {DAY_S:g} (a day)")
        if self.target is not None and not 0 < self.target < 100:
            raise ValueError(f"target={self.target:g} must be per cent above 0 and below 100: 1 is a good one")


@dataclass(frozen=True)
class Standing:
    """What is known of one problem when its share is settled."""

    known: int  # trials that were made
    space: int  # and all that could be
    stake_us: float


def first_totals(standings: Sequence[Standing], trials: int | None) -> list[int]:
    """How many trials each has to reach before any gets more."""
    most = FIRST_TRIALS if trials is None else min(FIRST_TRIALS, trials)
    return [min(one.space, max(one.known, most)) for one in standings]


def totals(standings: Sequence[Standing], trials: int | None) -> list[int]:
    """How many trials each has to reach. In sum, as many as there are problems times `trials`, where the spaces have
    them. What was made is never taken back: a problem that has more than its share leaves less to the others."""
    if trials is None:
        return [one.space for one in standings]
    reached = first_totals(standings, trials)
    left = trials * len(standings) - sum(reached)
    # By highest averages: each trial goes where most time is spent for a trial that it has, until none is left.
    heap = [(-one.stake_us / (have + 1), i) for i, (one, have) in enumerate(zip(standings, reached, strict=True))]
    heapify(heap)
    while left > 0 and heap:
        _, best = heappop(heap)
        if reached[best] < standings[best].space:
            reached[best] += 1
            left -= 1
            heappush(heap, (-standings[best].stake_us / (reached[best] + 1), best))
    return reached


def seconds_for(stakes_us: Sequence[float], left_s: float) -> float:
    """What the first of these gets of the seconds that are left for all of them."""
    whole = sum(stakes_us)
    return left_s * stakes_us[0] / whole if whole else left_s / len(stakes_us)
