"""The timing protocol of each kind of device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from qconv import Conv2d
from qconv.device import open_device
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import protocol
from qconv.tuner.measure.protocol import COLD_GRAPH, WALL_CLOCK, TimingProtocol, protocol_for, time_us
from qconv.tuner.measure.verification import InputSets

PROBLEM = Conv2d(1, 3, 3, 4, 4, 1, 1)


@pytest.mark.parametrize("name", TARGETS)
def test_a_gpu_is_timed_from_a_cold_cache(name: str) -> None:
    device: Any = SimpleNamespace(target=TARGETS[name])
    is_cpu = TARGETS[name].vendor == "cpu"
    assert protocol_for(device) == (WALL_CLOCK if is_cpu else COLD_GRAPH)


def test_the_first_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel then waits for its code and for its inputs."""
    times = iter([90.0, 1.0, 2.0, 3.0])
    rotated: list[int] = []

    class Told(InputSets):
        def replay(self, *_: Any) -> Any:
            rotated.append(self._rotated_bytes)
            return lambda: next(times)

    monkeypatch.setattr(protocol, "InputSets", Told)
    runnable: Any = SimpleNamespace(problem=PROBLEM, device=open_device("cpu"))
    assert time_us(runnable, registry.draw(PROBLEM, 1), TimingProtocol("a test", 1234, 3)) == (1.0, 2.0, 3.0)
    assert rotated == [1234]
