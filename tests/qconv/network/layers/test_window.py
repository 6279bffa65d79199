"""Pads, strides and dilations of a convolution match ONNX Runtime bit for bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_node import node_of, runs_on, whole_range

from qconv.network.layers.window import check_auto_pad, sides


def convolution(sizes: tuple[int, ...], filters: tuple[int, ...], **attributes: Any) -> Any:
    """Return the row of a QLinearConv with these extents, after comparing its bits with ONNX Runtime's."""
    rng = np.random.default_rng(sum(sizes))
    arrays = {"x": whole_range(rng, "uint8", (2, 3, *sizes)), "x_s": np.float32(0.1), "x_z": np.uint8(7)}
    arrays |= {"w": whole_range(rng, "uint8", (4, 3, *filters)), "w_s": np.float32(0.01), "w_z": np.uint8(0)}
    arrays |= {"y_s": np.float32(9.0), "y_z": np.uint8(3)}
    return runs_on(*node_of("QLinearConv", arrays, **attributes), f"{sizes} {filters} {attributes}")


# The ids are the pixels of padding along each axis.
@pytest.mark.turns
@pytest.mark.parametrize(
    ("sizes", "filters", "strides"),
    [
        pytest.param((9, 8), (4, 3), (1, 2), id="3, 1"),
        pytest.param((10, 7), (3, 2), (3, 1), id="2, 1"),
        pytest.param((8, 12), (1, 2), (2, 4), id="-1, -2"),
        pytest.param((12, 6), (1, 4), (3, 5), id="-2, 3"),
        pytest.param((11,), (4,), (2,), id="3"),
        pytest.param((9,), (1,), (3,), id="-2"),
    ],
)
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_by_rule(auto_pad: str, sizes: tuple[int, ...], filters: tuple[int, ...], strides: Any) -> None:
    row = convolution(sizes, filters, auto_pad=auto_pad, strides=strides)
    assert row.runs_on == "qconv", row.why


@pytest.mark.parametrize(("size", "is_served"), [(9, True), (10, False)])
@pytest.mark.parametrize("axes", [1, 2])
def test_where_onnx_runtime_begins_behind_the_first_pixel(size: int, is_served: bool, axes: int) -> None:
    """Windows of one pixel with stride five leave three or four pixels over: ONNX Runtime computes these itself."""
    sizes, strides = (size, 6)[:axes], (5, 1)[:axes]
    lower = convolution(sizes, (1,) * axes, auto_pad="SAME_LOWER", strides=strides)
    assert (lower.runs_on == "qconv") == is_served, lower.why
    upper = convolution(sizes, (1,) * axes, auto_pad="SAME_UPPER", strides=strides)
    assert upper.runs_on == "fallback"
    assert f"a filter of 1 that moves by 5 along {size} pixels: ONNX Runtime does not begin at the first" in upper.why


def test_padding_by_rule_reaches_over_the_gaps() -> None:
    """ONNX Runtime has no such convolution; ONNX has."""
    spec = sides({"auto_pad": b"SAME_LOWER", "dilations": (3, 1), "strides": (1, 2)}, (9, 8), (4, 3))
    assert spec == {"stride": (1, 2), "dilation": (3, 1), "pad": (5, 1, 4, 0)}


def test_one_axis_is_the_width() -> None:
    spec = sides({"pads": (1, 2), "strides": (3,), "dilations": (4,)}, (20,), (2,))
    assert spec == {"stride": (1, 3), "dilation": (1, 4), "pad": (0, 1, 0, 2)}


@pytest.mark.parametrize(
    ("why", "attributes"),
    [
        ("strides=(2,) with 2 axes: it must have 2 numbers", {"strides": (2,)}),
        ("dilations=(1, 1, 1) with 2 axes: it must have 2 numbers", {"dilations": (1, 1, 1)}),
        ("pads=(1, 1) with 2 axes: it must have 4 numbers", {"pads": (1, 1)}),
        ("kernel_shape=(3, 2), but w is (2, 3)", {"kernel_shape": (3, 2)}),
    ],
)
def test_what_does_not_fit_the_axes_is_refused(why: str, attributes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        sides(attributes, (9, 9), (2, 3))


def test_a_rule_and_pads_are_one_too_many() -> None:
    check_auto_pad({"auto_pad": "SAME_UPPER", "pads": (0, 0)})
    check_auto_pad({"pads": (1, 0)})
    with pytest.raises(ValueError, match="ONNX allows one only"):
        check_auto_pad({"auto_pad": "VALID", "pads": (1, 0)})
