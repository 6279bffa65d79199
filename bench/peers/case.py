"""The interface of every peer: its input and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from timing import Runner

from qconv import Conv2d
from qconv.device import Device
from qconv.ops.registry import Sample
from qconv.tuner.measure.protocol import TimingProtocol


class Unavailable(Exception):
    """Raised, with the reason, if a peer cannot run a problem here."""


@dataclass(frozen=True)
class Case:
    """A problem with its data; `expected` is our output on the device, already compared with the oracle."""

    problem: Conv2d
    drawn: Sample
    expected: Any
    device: Device
    protocol: TimingProtocol
    database: str | None = None
    limit_s: float | None = None  # limit of a peer's search for its fastest variant


@dataclass(frozen=True)
class Peer:
    run: Runner
    facts: dict[str, Any] = field(default_factory=dict)  # the kernel's name, how its output compares, ...
