"""Zero points subtracted behind a product: the sums of weights of each pixel and output, by the oracle of the map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_expression import computed, network_of

from qconv.network.expressions.fuse import fuse

RNG = np.random.default_rng(33)
SUMS = RNG.integers(-(2**31), 2**31, (2, 5, 4, 6), dtype=np.int32)
# Borders on both sides, and one set for all.
ROWS, COLUMNS = np.array([0, 1, 1, 2]), np.array([2, 0, 0, 0, 0, 1])
WEIGHTS = RNG.integers(-(2**31), 2**31, (3, 3, 5), dtype=np.int32)


def arrays(sums: Any, zero: Any, weights: Any) -> dict[str, Any]:
    return {"sums": sums, "zero": np.asarray(zero), "weights": weights}


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(255), np.int8(-128), np.array([7], np.uint8)])
def test_a_pixel_has_the_sums_of_its_row_and_its_column(zero: Any) -> None:
    places = {"rows": ROWS, "columns": COLUMNS, "axes": 2}
    got = computed("WithoutZeroPoint", arrays(SUMS, zero, WEIGHTS), SUMS, ("weights",), **places)
    moved = WEIGHTS[ROWS][:, COLUMNS].transpose(2, 0, 1).astype(np.int64) * np.int64(np.reshape(zero, ()))
    np.testing.assert_array_equal(got, (SUMS - moved).astype(np.int32))


def test_an_image_of_one_axis_has_columns() -> None:
    sums, weights = SUMS[:, :, 0], WEIGHTS[:1]
    places = {"rows": np.array([0]), "columns": COLUMNS, "axes": 1}
    got = computed("WithoutZeroPoint", arrays(sums, np.uint8(9), weights), sums, ("weights",), **places)
    np.testing.assert_array_equal(got, (sums - weights[0][COLUMNS].T.astype(np.int64) * 9).astype(np.int32))


@pytest.mark.parametrize("shape", [(), (4,), (2, 5, 4, 1)])
def test_a_matrix_has_one_sum_for_each_output(shape: tuple[int, ...]) -> None:
    zero, weights = RNG.integers(0, 256, shape).astype(np.uint8), WEIGHTS[:1, :1, :1].repeat(6, 2)
    places = {"rows": np.array([0]), "columns": np.array([0]), "axes": 0}
    got = computed("WithoutZeroPoint", arrays(SUMS, zero, weights), SUMS, ("weights",), **places)
    moved = zero.astype(np.int64).reshape(-1, 1) if shape == (4,) else zero.astype(np.int64)
    np.testing.assert_array_equal(got, (SUMS - moved * weights.reshape(-1)).astype(np.int32))


@pytest.mark.parametrize(("axes", "shape"), [(2, (6,)), (0, (3,)), (2, (2, 5, 4, 1))])
def test_other_zero_points_are_refused(axes: int, shape: tuple[int, ...]) -> None:
    given = arrays(SUMS, np.zeros(shape, np.uint8), WEIGHTS[:1, :1])
    places = {"rows": np.array([0]), "columns": np.array([0]), "axes": axes}
    _, served, why_not = fuse(network_of("WithoutZeroPoint", given, SUMS, ("weights",), **places), {})
    assert not served
    assert f"its zero points have the shape {shape}" in why_not["one"].text
