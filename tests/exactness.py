"""The check that every kernel has to pass: full-range random data, a poisoned output, tolerance 0."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv import generator, reference, sample
from qconv.device import Device
from qconv.generator import Plan
from qconv.instances.lookup import load
from qconv.problem import Conv2d

POISON = 0xA5


def expected(problem: Conv2d, drawn: sample.Sample) -> NDArray[Any]:
    return reference.conv2d(problem, *drawn.arrays, problem.checked(drawn.parameters))


def random_plan(problem: Conv2d, device: Device, seed: object) -> Plan:
    plans, _ = generator.space(problem, device.target)
    return random.Random(f"config {seed} {problem}").choice(plans)


def check(plan: Plan, device: Device, seed: int) -> None:
    """Fails with the first output that differs."""
    problem = plan.problem
    drawn = sample.draw(problem, seed)
    want = expected(problem, drawn)
    out = device.empty(problem.y_shape, problem.quantization.out_type)
    device.fill(out, POISON)
    instance = load(plan, device, "test", "chosen by a test")
    returned = instance(*map(device.upload, drawn.arrays), out=out, **drawn.parameters)
    device.synchronize()
    assert returned is out
    got = np.asarray(device.download(out))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wrong = np.argwhere(_bits(got) != _bits(want))
    assert wrong.size == 0, (
        f"{len(wrong)} of {got.size} outputs differ, the first at {tuple(wrong[0])}: {got[tuple(wrong[0])]} instead "
        f"of {want[tuple(wrong[0])]}\nproblem {problem}\nconfig {plan.config}\ndevice {device.name}, seed {seed}"
    )


def _bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(f"u{array.dtype.itemsize}")
