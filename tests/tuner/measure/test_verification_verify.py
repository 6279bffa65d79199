"""The check behind a user's `--verify`: it reports every difference from the oracle."""

from __future__ import annotations

import pytest

from qconv import generator
from qconv.arithmetic.quantization import Quantization
from qconv.device import open_device
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.problem.convolution import Conv2d
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
PROBLEM = Conv2d(1, 3, 3, 4, 4, 1, 1, quantization=Quantization(out_type="float32"))


def test_it_says_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = load(generator.default(PROBLEM, CPU.target), CPU)
    drawn = registry.draw(PROBLEM, 1)
    assert mismatch(instance, drawn) is None
    honest = registry.compute
    monkeypatch.setattr(registry, "compute", lambda *given: tuple(-out for out in honest(*given)))
    said = mismatch(instance, drawn)
    assert said is not None
    assert "outputs y differ from the oracle" in said
