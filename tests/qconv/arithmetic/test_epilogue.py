"""A relu or a relu6 whose zeros the output's own clamp produces is left to the clamp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qconv import Quantization
from qconv.arithmetic.epilogue import packs, packs_from_zero, steps
from qconv.arithmetic.mode import PRESETS
from qconv.arithmetic.quantization import Parameters


def names(q: Quantization) -> list[str]:
    return [step.name for step in steps(q)]


@pytest.mark.parametrize("mode", PRESETS)
def test_no_relu_is_followed_by_a_packed_clamp_at_the_same_zero(mode: str) -> None:
    """ptxas combines the two into F2IP.U8.RELU, which is an illegal instruction on an H200."""
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


@pytest.mark.parametrize("mode", PRESETS)
def test_the_zero_of_relu6_is_left_to_a_packing_that_has_it(mode: str) -> None:
    for out_type in ("int8", "uint8"):
        q = Quantization.of(mode, out_type=out_type, activation="relu6")
        (relu6,) = (step for step in steps(q) if step.name == "relu6")
        assert ("maximum" in relu6.cxx) != packs_from_zero(q)
        assert packs_from_zero(q) == (packs(q) and (out_type == "uint8" or q.mode.order == "multiply"))
        assert not packs_from_zero(replace(q, y_zero_point=True))


@pytest.mark.parametrize("y_scale", [0.5, 6 / 127, 0.01])
def test_an_int8_is_clamped_to_its_largest_before_it_is_packed_as_an_unsigned_byte(y_scale: float) -> None:
    q = Quantization(out_type="int8", activation="relu6")
    (relu6,) = (step for step in steps(q) if step.name == "relu6")
    (top,) = relu6.arguments
    parameters = Parameters(y_scale=y_scale)
    assert top.value(q, parameters) == min(np.float32(6) / np.float32(y_scale), np.float32(127))
