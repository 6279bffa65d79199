"""Overlapping launches on the first GPU, each of which reads the previous one's output, with the plans whose waits the
CPU device tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv import generator
from qconv.device import Device
from qconv.instances.load.pair import load
from qconv.ops import registry
from tests.templates.test_fences import OVERLAPPING, one_after_the_other, reading

TURNS = 20

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", OVERLAPPING)
def test_each_reads_what_the_one_before_wrote(name: str, gpu: Device) -> None:
    """The last of three overwrites the first one's input."""
    plan = generator.plan(OVERLAPPING[name].problem, OVERLAPPING[name].config, gpu.target)
    if not plan.overlaps:
        pytest.skip(f"no {plan.config.family} kernel overlaps on {gpu.target.name}")
    drawn = [registry.draw(plan.problem, i) for i in range(3)]
    instance = load(plan, gpu)
    first = gpu.upload(drawn[0].arrays[0])
    outs: list[Any] = [gpu.upload(np.zeros_like(drawn[0].arrays[0])) for _ in range(3)]
    bounds = []
    for given, each, out in zip((outs[2], *outs[:2]), drawn, outs, strict=True):
        uploaded = tuple(gpu.upload(array) for array in each.arrays)
        bounds.append(instance.bind(*reading(given, plan, uploaded), out=out, overlap=True, **each.parameters))
    want = one_after_the_other(plan)
    for _ in range(TURNS):
        gpu.copy(first, outs[2])
        for bound in bounds:
            bound()
        gpu.synchronize()
        assert all(map(np.array_equal, map(gpu.download, outs), want))
