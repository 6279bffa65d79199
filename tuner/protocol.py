"""How a kernel is timed: a value that is stored with every row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.instance import Instance
from qconv.sample import Sample

MOST_SETS = 2048


@dataclass(frozen=True)
class TimingProtocol:
    """`rotated_bytes`: the launches of one repeat go round input sets of at least this size in total, so that no set is
    still in the cache when its turn comes again. A repeat gives one figure, the mean over its launches; the median
    over the repeats is what rows are compared by."""

    name: str
    rotated_bytes: int
    repeats: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# 200 MB is more than three times the last-level cache of any GPU listed.
COLD_GRAPH = TimingProtocol("cold cache, one graph of back-to-back launches, events", 200_000_000, 9)
WALL_CLOCK = TimingProtocol("one input set, wall clock", 0, 9)


def protocol_for(device: Device) -> TimingProtocol:
    return WALL_CLOCK if device.target.vendor == "cpu" else COLD_GRAPH


def time_us(instance: Instance, sample: Sample, protocol: TimingProtocol) -> tuple[float, ...]:
    """One figure a repeat, in microseconds a launch."""
    bounds = [instance.bind(*arrays, **sample.parameters) for arrays in _input_sets(instance, sample, protocol)]
    return instance.device.time_us([bound.launch for bound in bounds], protocol.repeats)


def _input_sets(instance: Instance, sample: Sample, protocol: TimingProtocol) -> list[list[Any]]:
    """Copies of the sample; rolled along the channels, so that no two are alike and all are full-range."""
    count = min(MOST_SETS, max(1, -(-protocol.rotated_bytes // instance.problem.io_bytes)))
    upload = instance.device.upload
    return [[upload(np.roll(array, i)) for array in sample.arrays] for i in range(count)]
