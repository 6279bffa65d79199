"""A CPU device that is made with a seed runs its kernels in that order."""

from __future__ import annotations

import pytest

from qconv import generator, sample
from qconv.device import cpu_runtime
from qconv.device.cpu import CpuDevice
from qconv.instances.loading import load
from qconv.problem import Conv2d
from qconv.target import TARGETS


@pytest.mark.parametrize("seed", [0, 3])
def test_the_seed_reaches_the_runtime(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    honest = cpu_runtime.run_grid

    def run_grid(grid: cpu_runtime.LaunchedGrid) -> None:
        seen.append(grid.seed)
        honest(grid)

    monkeypatch.setattr(cpu_runtime, "run_grid", run_grid)
    device, problem = CpuDevice(TARGETS["cpu"], seed), Conv2d(1, 3, 3, 4, 4, 1, 1)
    drawn = sample.draw(problem, 1)
    load(generator.default(problem, device.target), device)(*drawn.arrays, **drawn.parameters)
    assert seen == [seed]
