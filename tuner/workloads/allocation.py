"""Allocation of a workload's budget: the more time a network spends in a problem, the more trials the problem gets.

A problem's stake is its best time so far, or else its predicted time, multiplied by its count in the network. Every
problem first gets a few trials, so that its stake is measured; the rest is spread in proportion to the stakes. Rows of
earlier runs count, so a resumed run finishes what the first one left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from numbers import Integral, Real

from qconv.op import quoted

# The default, the looked-up config, and the next ones of the cost model. After these, a problem's time is no longer a
# guess.
FIRST_TRIALS = 8
DAY_S = 86400.0


@dataclass(frozen=True)
class Budget:
    """The limits of tuning. `trials` is the average per problem; `seconds` is for all problems together; `gain_percent`
    ends the trials of a problem when the next is expected to shorten its best time by fewer per cent. The first limit
    reached ends the tuning."""

    trials: int | None = None
    seconds: float | None = None
    gain_percent: float | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.seconds is None and self.gain_percent is None:
            raise ValueError("a budget of nothing: give trials, seconds, gain_percent, or several of them")
        for name in ("seconds", "gain_percent"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
                raise ValueError(f"{name}={quoted(value)} must be a number")
        if self.trials is not None and (isinstance(self.trials, bool) or not isinstance(self.trials, Integral)):
            raise ValueError(f"trials={quoted(self.trials)} must be an integer, or a qconv.Budget with seconds")
        if self.trials is not None and self.trials < 1:
            raise ValueError(f"trials={self.trials} must be at least 1: a problem without a trial is not tuned")
        if self.seconds is not None and not 0 < self.seconds <= DAY_S:
            raise ValueError(f"seconds={self.seconds:g} must be above 0, and at most {DAY_S:g} (a day)")
        if self.gain_percent is not None and not 0 < self.gain_percent < 100:
            raise ValueError(f"gain_percent={self.gain_percent:g} must be above 0 and below 100: 1 is a good one")


@dataclass(frozen=True)
class Standing:
    """The state of a problem when its share is computed."""

    known: int  # trials that were made
    space: int  # trials that are possible
    stake_us: float


def first_totals(standings: Sequence[Standing], trials: int | None) -> list[int]:
    """Return the number of trials that each problem has to reach before any gets more."""
    most = FIRST_TRIALS if trials is None else min(FIRST_TRIALS, trials)
    return [min(one.space, max(one.known, most)) for one in standings]


def totals(standings: Sequence[Standing], trials: int | None) -> list[int]:
    """Return the number of trials that each problem has to reach: on average `trials`, as far as the spaces allow.
    Trials already made count, so a problem with more than its share leaves less to the others."""
    if trials is None:
        return [one.space for one in standings]
    reached = first_totals(standings, trials)
    left = trials * len(standings) - sum(reached)
    # Highest averages method: each trial goes to the problem with the largest stake per trial.
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
    """Return the first problem's share of the seconds left for all of these."""
    whole = sum(stakes_us)
    return left_s * stakes_us[0] / whole if whole else left_s / len(stakes_us)
