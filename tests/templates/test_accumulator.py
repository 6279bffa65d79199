"""Sums at the end of the int32 range, where a wrong or saturating intermediate step loses a product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qconv import Conv2d, Quantization, generator
from qconv.device import Device, open_device
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.tuner.measure.verification import mismatch

INT_MAX = 2**31 - 1
WHOLE = Quantization("uint8", "int8", "int32", x_zero_point=True, w_zero_point=True)
EXTREMES = {"int8": (-128, 127), "uint8": (0, 255)}


def longest(x_type: str, w_type: str, zero_points: bool) -> Conv2d:
    """Return a problem with the most channels that an accumulator certainly holds."""
    q = Quantization(x_type, w_type, "int32", x_zero_point=zero_points, w_zero_point=zero_points)
    return Conv2d(1, 1, 2, INT_MAX // q.largest_product, 3, 1, 1, quantization=q)


def drawn_at_the_end(problem: Conv2d, x_end: int, w_end: int) -> registry.Sample:
    """Draw everything at one end of its type; the second pixel alternates, so that its sum moves far away and back."""
    q = problem.quantization
    x = np.full(problem.x_shape, EXTREMES[q.x_type][x_end], q.x_type)
    x[0, -1, 1, ::2] = EXTREMES[q.x_type][1 - x_end]
    w = np.full(problem.w_shape, EXTREMES[q.w_type][w_end], q.w_type)
    w[1, 0, 0, ::2] = EXTREMES[q.w_type][1 - w_end]
    parameters: dict[str, Any] = {}
    if q.x_zero_point:
        # At the other end: the raw sums exceed the range, and the corrections bring them back.
        parameters = {"x_zero_point": EXTREMES[q.x_type][1 - x_end], "w_zero_point": EXTREMES[q.w_type][1 - w_end]}
    return registry.Sample((x, w), parameters)


def check(problem: Conv2d, device: Device) -> None:
    instance = load(generator.default(problem, device.target), device)
    for x_end in (0, 1):
        for w_end in (0, 1):
            assert mismatch(instance, drawn_at_the_end(problem, x_end, w_end)) is None, (x_end, w_end)


@pytest.mark.turns
@pytest.mark.parametrize("zero_points", [False, True], ids=["symmetric", "zero points"])
@pytest.mark.parametrize("w_type", EXTREMES)
@pytest.mark.parametrize("x_type", EXTREMES)
def test_the_longest_sum(x_type: str, w_type: str, zero_points: bool) -> None:
    problem = longest(x_type, w_type, zero_points)
    check(problem, open_device("cpu"))
    with pytest.raises(ValueError, match="more than an int32 accumulator holds"):
        replace(problem, c=problem.c + 1)


@pytest.mark.gpu
@pytest.mark.parametrize("zero_points", [False, True], ids=["symmetric", "zero points"])
@pytest.mark.parametrize("w_type", EXTREMES)
@pytest.mark.parametrize("x_type", EXTREMES)
def test_the_longest_sum_on_a_gpu(x_type: str, w_type: str, zero_points: bool, gpu: Device) -> None:
    check(longest(x_type, w_type, zero_points), gpu)


def test_a_deep_3x3_of_extremes() -> None:
    """18432 products of a full-range 3x3 of 2048 channels: far more than fp32 holds, exact here."""
    problem = Conv2d(1, 3, 3, 2048, 2, 3, 3, quantization=replace(WHOLE, x_type="int8"))
    check(problem, open_device("cpu"))
