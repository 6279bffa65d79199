"""Windows whose chunks lanes load, because TMA does not support such pixels: tolerance 0."""

from __future__ import annotations

from exactness import check

from qconv import Conv2d, Quantization
from qconv.device.cpu import CpuDevice
from tests.templates.test_halo import LATE, plan_of


def test_lanes_bring_more_chunks_than_they_ask_for_at_once() -> None:
    """Ten rows of ten pixels of seven chunks, by 128 lanes with four loads in flight each."""
    plan = plan_of(Conv2d(1, 16, 16, 98, 32, 3, 3, pad=1, quantization=Quantization()), rows=8)
    check(plan, CpuDevice(plan.target, seed=LATE), seed=2)
