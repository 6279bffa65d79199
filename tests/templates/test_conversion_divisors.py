"""Scales so small or so large that only a division rounds correctly, not a product with the inverse."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import generator
from qconv.conversion import Quantize
from qconv.device import open_device
from qconv.instances.load.pair import load
from qconv.ops.registry import Sample
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")


@pytest.mark.parametrize("scale", [2.0**-130, 3e-39, 1e-38, 1e-30, 1e30, 3e38])
def test_quotients_are_those_of_a_division(scale: float) -> None:
    problem = Quantize(1, 1, 256)
    instance = load(generator.default(problem, CPU.target), CPU)
    divisor = np.float32(scale)
    with np.errstate(over="ignore"):
        x = (np.arange(-128, 128, dtype=np.float32) * np.float32(0.5) * divisor).reshape(1, 1, 256)
    assert mismatch(instance, Sample((x, np.array([divisor])))) is None
