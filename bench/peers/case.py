"""What every peer is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from timing import Runner

from qconv import Conv2d
from qconv.device import Device
from qconv.ops.registry import Sample
from qconv.tuner.measure.protocol import TimingProtocol


class Unavailable(Exception):
    """This peer cannot run this problem here; says why."""


@dataclass(frozen=True)
class Case:
    """`expected` is our output on the device, already compared with the oracle."""

    problem: Conv2d
    drawn: Sample
    expected: Any
    device: Device
    protocol: TimingProtocol
    database: str | None = None
    limit_s: float | None = None  # how long a peer may look for its fastest way


@dataclass(frozen=True)
class Peer:
    run: Runner
    facts: dict[str, Any] = field(default_factory=dict)  # which kernel it is, how its output compares
