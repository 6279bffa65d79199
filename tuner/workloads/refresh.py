"""Winners that older templates made, and those beside which today's kernels are expected to be much faster: which they
are, as a workload to tune, and what is to be kept when it is tuned."""

from __future__ import annotations

from collections.abc import Iterable

from qconv import generator
from qconv.instances.choose.shipped import scaled
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement, best_of, rivals
from qconv.tuner.workload import Place, Workload
from qconv.tuner.workloads.result import is_todays, untuned

# How many times as long a winner must take as what is chosen without tuning is expected to: the models are off by less.
OVERTAKEN = 1.3


def stale(rows: Iterable[Measurement]) -> list[Measurement]:
    """The winners, by problem and device, whose source is not today's, and whose config was not measured again since.
    What it was faster with is no reason: that kernel is not made any more."""
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
    """The winners, by problem and device, that a kernel is expected to beat which has come since. Where it was measured
    as well, that is known."""
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
    """The winner of each problem and device among the rows of today's sources; where there is none, the old one."""
    found = []
    for group in rivals(rows):
        left, first = list(group), best_of(group)
        best = first
        while best is not None and not is_todays(best):
            left.remove(best)
            best = best_of(left)
        found += [row for row in (best or first,) if row is not None]
    return found
