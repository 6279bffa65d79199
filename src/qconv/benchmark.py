"""The Python interface of timing: `qconv.bench(problem)` verifies and times the kernel that `qconv.lookup` returns."""

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
    """A verified and timed kernel. `times_us` has one figure per repeat of the protocol, in microseconds per launch."""

    instance: Instance
    protocol: TimingProtocol
    times_us: tuple[float, ...]

    def __repr__(self) -> str:
        return f"<Benchmark: {self.time_us:.2f} us, {self.instance!r}>"

    @property
    def time_us(self) -> float:
        """Return the median, by which rows are compared."""
        return statistics.median(self.times_us)

    @property
    def tops(self) -> float:
        """Return 10^12 operations per second, where a multiplication and an addition count as two."""
        return self.instance.problem.operations / self.time_us / 1e6

    @property
    def gb_per_s(self) -> float:
        """Return the bytes of inputs and outputs, each counted once, per second, in GB/s."""
        return self.instance.problem.io_bytes / self.time_us / 1e3

    @property
    def facts(self) -> dict[str, Any]:
        """Return the facts about the device that a time depends on: driver, clocks, cores."""
        return self.instance.device.facts()


def bench(
    problem: Problem | str,
    device: str | None = None,
    db: str | None = None,
    *,
    zero_points: Mapping[str, int] | None = None,
    seed: int | None = None,
) -> Benchmark:
    """Verify the kernel that `lookup` returns for the problem (or its key) on random full-range data, and time it with
    the tuner's protocol. Raise WrongOutput where a bit differs from the oracle.

    `zero_points` fixes some of the zero points, as in {"x_zero_point": -3}. `seed` fixes the data, which is new for
    each call otherwise."""
    wanted = problem_of(problem)
    instance = lookup(wanted, device, db)
    seed = secrets.randbits(32) if seed is None else seed
    drawn = registry.draw(wanted, seed, dict(zero_points or {}))
    if (wrong := mismatch(instance.executable, drawn)) is not None:
        raise WrongOutput(f"{wanted} on {instance.device.name}, seed={seed}: {wrong}")
    protocol = protocol_for(instance.device)
    return Benchmark(instance, protocol, tuple(measure(instance.executable, drawn, protocol)))
