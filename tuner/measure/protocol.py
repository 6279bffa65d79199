"""How a kernel is timed: a value that is stored with every row.

A tuner does not spend as much on every candidate. Each is *screened* by a few repeats; only where that comes near the
best so far is it timed in full, *alone*; at the end the fastest few and the untuned default are *raced*, one repeat of
each in turn, until the fastest of all rows is one of the last race. So neither the winner nor its speed-up is an
accident of when it was measured, and a row that was screened lost by more than repeats differ. Should the rows that it
lost to be gone, it still comes after every row timed in full.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from qconv.device import Device
from qconv.instances.load.pair import Runnable
from qconv.ops.registry import Sample
from qconv.tune_db.measurement import SCREENED
from qconv.tuner.measure.verification import InputSets

SCREENING_REPEATS = 3
# How many times slower than the best: up to here a candidate is timed in full, from there on one replay is enough.
NEAR, HOPELESS = 1.25, 5.0
ALONE, RACED = "alone", "raced"


@dataclass(frozen=True)
class TimingProtocol:
    """`rotated_bytes`: the launches of one repeat go round input sets of at least this size in total, so that no set is
    still in the cache when its turn comes again. A repeat gives one figure, the mean over its launches; the median
    over the repeats is what rows are compared by. `phase` is screened, alone or raced, as above."""

    name: str
    rotated_bytes: int
    repeats: int
    phase: str = ALONE

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def screening(self, repeats: int) -> TimingProtocol:
        return replace(self, repeats=repeats, phase=SCREENED)

    @property
    def race(self) -> TimingProtocol:
        return replace(self, phase=RACED)


# 200 MB is more than three times the last-level cache of any GPU listed.
COLD_GRAPH = TimingProtocol("cold cache, one graph of back-to-back launches, events", 200_000_000, 9)
WALL_CLOCK = TimingProtocol("one input set, wall clock", 0, 9)


def protocol_for(device: Device) -> TimingProtocol:
    return WALL_CLOCK if device.target.vendor == "cpu" else COLD_GRAPH


def time_us(runnable: Runnable, sample: Sample, protocol: TimingProtocol) -> tuple[float, ...]:
    """One figure a repeat, in microseconds a launch."""
    again = InputSets(runnable.problem, runnable.device, sample, protocol.rotated_bytes).replay(runnable)
    again()
    return tuple(again() for _ in range(protocol.repeats))
