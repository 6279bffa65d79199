"""The check that every kernel must pass: full-range random data, a poisoned output, tolerance 0."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv import generator
from qconv.device import Device
from qconv.device.cpu import CpuDevice
from qconv.generator import Plan
from qconv.instances.load.instance import Instance
from qconv.instances.load.pair import Runnable, load
from qconv.ops import registry
from qconv.problem.convolution import Conv2d
from qconv.tuner.measure.verification import mismatch

POISON = 0xA5


def expected(problem: Conv2d, drawn: registry.Sample) -> NDArray[Any]:
    (y,) = registry.compute(problem, drawn)
    return y


def random_plan(problem: Conv2d, device: Device, seed: object) -> Plan:
    plans, _ = generator.space(problem, device.target)
    return random.Random(f"config {seed} {problem}").choice(plans)


def check(plan: Plan, device: Device, seed: int) -> None:
    """Run the tuner's own check, which fails with the first output that differs."""
    drawn = registry.draw(plan.problem, seed)
    wrong = mismatch(load(plan, device), drawn)
    assert wrong is None, f"{wrong}\n{plan.config} on {device.name}, seed {seed}, {plan.problem}"


def check_all(plans: list[Plan], first: int) -> None:
    """Check plans with copies performed as late as allowed (even seeds) or as early, and threads in order, reversed or
    random."""
    for index, plan in enumerate(plans, first):
        check(plan, CpuDevice(plan.target, seed=index % 6), seed=index)


def run(kernel: Runnable | Instance, drawn: registry.Sample) -> NDArray[Any]:
    """Return the output of an unbound call over a poisoned array."""
    problem, device = kernel.problem, kernel.device
    (y,) = problem.outputs
    out = device.empty(y.shape, y.dtype)
    device.fill(out, POISON)
    returned = kernel(*(device.upload(array) for array in drawn.arrays), out=out, **drawn.parameters)
    device.synchronize()
    assert returned is out
    return np.asarray(device.download(out))


def assert_same(got: NDArray[Any], want: NDArray[Any], about: str) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wrong = np.argwhere(_bits(got) != _bits(want))
    assert wrong.size == 0, (
        f"{len(wrong)} of {got.size} outputs differ, the first at {tuple(wrong[0])}: {got[tuple(wrong[0])]} instead "
        f"of {want[tuple(wrong[0])]}\n{about}"
    )


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}")
