"""The Python face of timing: `qconv.bench(problem)` verifies and times the kernel that `qconv.lookup` gives."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qconv.errors import WrongOutput
from qconv.instances.load.instance import Instance
from qconv.instances.load.serving import lookup
from qconv.op import Problem
from qconv.ops import registry
from qconv.ops.registry import problem_of
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.protocol import time_us as measure
from qconv.tuner.measure.verification import mismatch


@dataclass(frozen=True)
class Benchmark:
    """`times_us` has one figure a repeat of the protocol, in microseconds a launch."""

    instance: Instance
    protocol: TimingProtocol
    times_us: tuple[float, ...]

    @property
    def time_us(self) -> float:
        """The median, by which rows are compared."""
        return statistics.median(self.times_us)

    @property
    def tops(self) -> float:
        """10^12 operations a second; a multiplication and an addition are two."""
        return self.instance.problem.operations / self.time_us / 1e6

    @property
    def gb_per_s(self) -> float:
        """The bytes of inputs and outputs, each counted once, against the time."""
        return self.instance.problem.io_bytes / self.time_us / 1e3

    @property
    def facts(self) -> dict[str, Any]:
        """What a reader of the time wants to know of the device: driver, clocks, cores."""
        return self.instance.device.facts()


def bench(
    problem: Problem | str,
    device: str | None = None,
    database: str | None = None,
    *,
    zero_points: Mapping[str, int] | None = None,
    seed: int | None = None,
) -> Benchmark:
    """Verify the kernel that `lookup` gives for the problem (or its key) on random full-range data, and time it by the
    tuner's protocol. Raises WrongOutput where a bit differs from the oracle.

    `zero_points` fixes some, as in {"x_zero_point": -3}; `seed` fixes the data, which are fresh otherwise."""
    wanted = problem_of(problem)
    instance = lookup(wanted, device, database)
    seed = secrets.randbits(32) if seed is None else seed
    drawn = registry.draw(wanted, seed, dict(zero_points or {}))
    if (wrong := mismatch(instance.executable, drawn)) is not None:
        raise WrongOutput(f"{wanted} on {instance.device.name}, seed={seed}: {wrong}")
    protocol = protocol_for(instance.device)
    return Benchmark(instance, protocol, tuple(measure(instance.executable, drawn, protocol)))
