"""Refresh of winners: finds those measured with older templates and those that today's kernels are expected to beat,
makes a workload of them, and selects the rows to keep after it is tuned."""

from __future__ import annotations

from collections.abc import Iterable

from qconv import generator
from qconv.instances.choose.shipped import scaled
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement, best_of, rivals
from qconv.tuner.workload import Place, Workload
from qconv.tuner.workloads.result import is_todays, untuned

# Threshold for a winner's time over the expected time of the untuned choice. It exceeds the error of the models.
OVERTAKEN = 1.3


def stale(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the winners, by problem and device, whose source is not today's and whose config has not been measured
    again since. That the old source was faster does not matter, because its kernel is no longer generated."""
    found = []
    for group in rivals(rows):
        best = best_of(group)
        if best is None or is_todays(best):
            continue
        again = (row for row in group if row.config == best.config and row.digest != best.digest)
        if not any(map(is_todays, again)):
            found.append(best)
    return found


def overtaken(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the winners, by problem and device, that today's untuned choice is expected to beat by OVERTAKEN, unless
    that was measured."""
    found = []
    for group in rivals(rows):
        configs, best = {row.config for row in group}, best_of(group)
        if best is None or best.median_us is None or not generator.predicts_time(best.problem):
            continue
        default = untuned(best.problem, target(best.target))
        (expected,) = generator.expected([default])
        us = scaled(expected, default, best.device).us
        if expected.is_corrected and default.config not in configs and best.median_us > OVERTAKEN * us:
            found.append(best)
    return found


def workload_of(winners: Iterable[Measurement]) -> Workload:
    return Workload.of("stale winners", [Place(f"tuned {row.created_at:%Y-%m-%d}", row.problem) for row in winners])


def kept(rows: Iterable[Measurement]) -> list[Measurement]:
    """Return the winner of each problem and device among the rows of today's sources, or the old winner where there is
    none."""
    found = []
    for group in rivals(rows):
        left, first = list(group), best_of(group)
        best = first
        while best is not None and not is_todays(best):
            left.remove(best)
            best = best_of(left)
        found += [row for row in (best or first,) if row is not None]
    return found
