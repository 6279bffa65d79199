"""Resize and Upsample: the results are ONNX Runtime's, those of cubic sums but for the last bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, drawn, fused, keys_of, one_op, runs_here

from qconv.network.expressions.readers.resizing import NEAREST, PLACES

RNG = np.random.default_rng(53)
X = (1, 2, 5, 7)
SCALES = [(1, 1, 2, 3), (1, 1, 0.6, 1.7), (1, 1, 1, 0.5)]
NAMED = sorted(set(PLACES) - {"tf_crop_and_resize"})


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def drawn_x(dtype: str, shape: tuple[int, ...] = X) -> Any:
    """Draw x. ONNX Runtime converts a weighted sum of int32 that floats cannot hold in undefined ways."""
    return drawn(RNG, shape, dtype) // 1024 if dtype == "int32" else drawn(RNG, shape, dtype)


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("scales", SCALES)
def test_the_nearest_element(scales: Any, named: str) -> None:
    x = drawn_x("uint8")
    for nearest in sorted(set(NEAREST) - {"simple"}):
        model = one_op("Resize", x, None, floats(*scales), coordinate_transformation_mode=named, nearest_mode=nearest)
        assert_as_onnxruntime(model, {"x": x})


@pytest.mark.turns
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8", "int32"])
@pytest.mark.parametrize("named", [name for name in NAMED if name != "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("scales", [*SCALES[:2], (1, 1, 0.5, 0.4)])
def test_weighted_sums(scales: Any, named: str, dtype: str) -> None:
    x = drawn_x(dtype)
    how = {"coordinate_transformation_mode": named}
    assert_as_onnxruntime(one_op("Resize", x, None, floats(*scales), mode="linear", **how), {"x": x})
    if dtype == "float32":
        for excludes in (0, 1):
            weights = {"exclude_outside": excludes, "cubic_coeff_a": -0.5}
            model = one_op("Resize", x, None, floats(*scales), mode="cubic", **weights, **how)
            assert_as_onnxruntime(model, {"x": x}, ulps=4)


def test_the_weighted_sum_of_one_axis() -> None:
    """ONNX Runtime adds each product twice, with half its weight, for an axis that stays."""
    x = drawn_x("float32")
    assert_as_onnxruntime(one_op("Resize", x, None, floats(*SCALES[2]), mode="linear"), {"x": x}, ulps=1)


CROPPED = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
PART = floats(0, 0, 0.2, -0.3, 1, 1, 0.8, 1.2)


# The constants behind x, and the attributes.
@pytest.mark.parametrize(
    ("constants", "attributes"),
    [
        ((None, None, np.array([1, 2, 8, 3])), {}),
        ((PART, floats(1, 1, 2, 2)), CROPPED),
        ((PART, None, np.array([1, 2, 8, 1])), CROPPED),
        ((None, None, np.array([8, 12])), {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}),
        ((None, None, np.array([8, 12])), {"axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}),
        ((None, floats(2, 1.5)), {"axes": [-1, -2]}),
        ((floats(1, 1, 0.7, 2.4),), {"opset": 10}),
    ],
)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_axes_and_parts(mode: str, constants: Any, attributes: dict[str, Any]) -> None:
    if mode == "cubic" and "opset" in attributes:
        return  # is of later versions
    x = drawn_x("float32")
    assert_as_onnxruntime(
        one_op("Resize", x, *constants, mode=mode, **attributes), {"x": x}, ulps=4 * (mode == "cubic")
    )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    x = drawn_x("float32")
    assert_as_onnxruntime(one_op("Upsample", x, floats(1, 1, 2, 3), mode=mode, opset=9), {"x": x})
    assert_as_onnxruntime(one_op("Upsample", x, scales=[1.0, 1, 1.3, 3], mode=mode, opset=7), {"x": x})


@pytest.mark.parametrize(
    ("shape", "scales", "mode"),
    [
        ((1, 2, 4, 5, 3), (1, 1, 2, 1.5, 2), "linear"),
        ((2, 4, 6), (1, 2, 0.5), "nearest"),
        ((4, 6), (2, 1.5), "linear"),
        ((4, 6), (2, 1.5), "cubic"),
    ],
)
def test_any_number_of_axes(shape: Any, scales: Any, mode: str) -> None:
    x = drawn_x("float32", shape)
    assert_as_onnxruntime(one_op("Resize", x, None, floats(*scales), mode=mode), {"x": x}, ulps=4 * (mode == "cubic"))


def test_a_whole_scale_needs_no_table() -> None:
    """Nearest elements are a quotient or a multiple of the index."""
    x = drawn_x("float32")
    (larger,) = keys_of(one_op("Resize", x, None, floats(1, 1, 2, 3)))
    assert larger.endswith("shape=10,2,7,3:in=float32*70:out=float32:do=t0=x0[i0*7+i2]")
    (smaller,) = keys_of(one_op("Resize", x, None, None, np.array([1, 2, 1, 7]), nearest_mode="floor"))
    assert smaller.endswith("do=t0=x0[i0*35+i1+14]")


@pytest.mark.turns
@pytest.mark.parametrize("excludes", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(0.5, 0.5), (0.3, 0.7), (2, 0.4), (1.5, 2), (1, 0.6)])
def test_smoothed_sums(scales: tuple[float, float], mode: str, excludes: int) -> None:
    x = drawn(RNG, (2, 3, 9, 11))
    for named in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
        more = {"exclude_outside": excludes, "coordinate_transformation_mode": named}
        model = one_op("Resize", x, None, floats(1, 1, *scales), mode=mode, antialias=1, **more)
        assert_as_onnxruntime(model, {"x": x}, ulps=8)


def test_what_is_not_smoothed_here_runs_elsewhere() -> None:
    model = one_op("Resize", drawn_x("uint8"), None, floats(1, 1, 0.5, 0.5), mode="linear", antialias=1)
    assert "antialias=1 of uint8; the kernels smooth floats" in "".join(map(str, fused(model)[1].values()))


def test_a_weighted_sum_runs_here() -> None:
    x = drawn_x("float32")
    runs_here(one_op("Resize", x, None, floats(1, 1, 2, 1.5), mode="linear"), {"x": x})
