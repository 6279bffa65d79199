"""A relu whose zeros the output's own clamp makes is left to it."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import Quantization
from qconv.epilogue import packs, steps
from qconv.mode import PRESETS


def names(q: Quantization) -> list[str]:
    return [step.name for step in steps(q)]


@pytest.mark.parametrize("mode", PRESETS)
def test_no_relu_is_followed_by_a_packed_clamp_at_the_same_zero(mode: str) -> None:
    """ptxas makes F2IP.U8.RELU of the two, which is an illegal instruction on an H200."""
    for out_type in ("int8", "uint8"):
        q = Quantization.of(mode, out_type=out_type, activation="relu")
        assert ("relu" in names(q)) == (out_type == "int8" or not packs(q))


def test_a_relu_at_another_zero_stays() -> None:
    assert "relu" in names(Quantization(out_type="uint8", y_zero_point=True, activation="relu"))


def test_what_is_left_out_changes_nothing() -> None:
    q = Quantization(out_type="uint8", activation="relu")
    values = np.array([-np.inf, -1e9, -0.5, -0.0, 0.0, 0.5, 1.5, 254.5, 1e9, np.inf], np.float32)
    last = steps(q)[-1]
    assert np.array_equal(last.numpy(values, {}), last.numpy(np.maximum(values, 0), {}))
