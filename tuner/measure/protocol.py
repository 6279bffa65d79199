"""The timing protocol, a value stored with every row.

The tuner spends little time on slow candidates. Each candidate is *screened* by a few repeats. If these are near the
best time so far, the candidate is timed in full, *alone*. At the end the fastest few and the untuned default are
*raced*, one repeat of each in turn, until the fastest of all rows took part in the last race. So neither the winner nor
its speed-up depends on when it was measured. A screened row lost by more than repeats differ, and it ranks after every
row timed in full even if the rows it lost to are deleted.
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
# Multiples of the best time. Up to NEAR a candidate is timed in full; beyond HOPELESS a single repeat is enough.
NEAR, HOPELESS = 1.25, 5.0
ALONE, RACED = "alone", "raced"


@dataclass(frozen=True)
class TimingProtocol:
    """How a kernel is timed. The launches of a repeat cycle through input sets of at least `rotated_bytes` in total, so
    that no set is still cached when it is used again. A repeat gives the mean over its launches; rows are compared by
    the median over the repeats. `phase` is screened, alone or raced, as described above."""

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


# 200 MB exceed three times the last-level cache of every supported GPU.
COLD_GRAPH = TimingProtocol("cold cache, one graph of back-to-back launches, events", 200_000_000, 9)
WALL_CLOCK = TimingProtocol("one input set, wall clock", 0, 9)


def protocol_for(device: Device) -> TimingProtocol:
    return WALL_CLOCK if device.target.vendor == "cpu" else COLD_GRAPH


def time_us(runnable: Runnable, sample: Sample, protocol: TimingProtocol) -> tuple[float, ...]:
    """Return the time of a launch in microseconds, one figure per repeat."""
    replay = InputSets(runnable.problem, runnable.device, sample, protocol.rotated_bytes).replay(runnable)
    replay()
    return tuple(replay() for _ in range(protocol.repeats))
