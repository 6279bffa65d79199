"""Pools: the results are ONNX Runtime's, those of sums but for the last bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, drawn, evaluated, keys_of, one_op, runs_here
from onnx import TensorProto

RNG = np.random.default_rng(52)
X = (2, 3, 9, 10)
WINDOWS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 1, 1, 1]},
    {"pads": [0, 1, 1, 0], "strides": [2, 3]},
    {"ceil_mode": 1, "strides": [2, 2]},
    {"ceil_mode": 1, "strides": [3, 2], "pads": [1, 1, 1, 1]},
    {"ceil_mode": 1, "strides": [3, 3], "pads": [0, 0, 1, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
    {"auto_pad": "VALID", "strides": [2, 1]},
    {"dilations": [2, 3]},
    {"dilations": [2, 2], "pads": [1, 1, 1, 0], "strides": [2, 1]},
]


@pytest.mark.turns
@pytest.mark.parametrize("size", [(3, 3), (2, 2), (5, 4)])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_largest_of_each_window(window: dict[str, Any], size: tuple[int, int]) -> None:
    for dtype in ("float32", "float16", "uint8", "int8"):
        x = drawn(RNG, X, dtype)
        assert_as_onnxruntime(one_op("MaxPool", x, kernel_shape=size, **window), {"x": x})


@pytest.mark.turns
@pytest.mark.parametrize("size", [(3, 3), (2, 2), (5, 4)])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_mean_of_each_window(window: dict[str, Any], size: tuple[int, int]) -> None:
    x = drawn(RNG, X)
    for counted in (0, 1):
        model = one_op("AveragePool", x, kernel_shape=size, count_include_pad=counted, opset=19, **window)
        assert_as_onnxruntime(model, {"x": x}, ulps=2)


@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[2], WINDOWS[6]])
def test_the_norm_of_each_window(window: dict[str, Any], p: int) -> None:
    x = drawn(RNG, X)
    for size in ((2, 3), (5, 4)):
        assert_as_onnxruntime(one_op("LpPool", x, kernel_shape=size, p=p, **window), {"x": x}, ulps=4)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 3, 9), {"kernel_shape": [4], "strides": [2]}),
        ((2, 3, 4, 5, 6), {"kernel_shape": [2, 2, 3], "strides": [2, 1, 1], "pads": [1, 0, 1] * 2}),
        ((1, 2, 4, 5, 6), {"kernel_shape": [3, 3, 3], "pads": [1] * 6}),
    ],
)
def test_windows_of_one_and_three_axes(shape: Any, attributes: dict[str, Any]) -> None:
    x = drawn(RNG, shape)
    assert_as_onnxruntime(one_op("MaxPool", x, **attributes), {"x": x})
    assert_as_onnxruntime(one_op("AveragePool", x, **attributes), {"x": x}, ulps=2)


@pytest.mark.turns
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_places_of_the_largest(window: dict[str, Any], order: int) -> None:
    for shape, size in ((X, (3, 3)), (X, (2, 3)), ((2, 3, 4, 5, 6), (2, 1, 3))):
        if len(size) == 3 and set(window) - {"auto_pad"}:
            continue
        more = {} if len(size) == 3 else window
        for dtype in ("float32", "int8"):
            x = drawn(RNG, shape, dtype)
            model = one_op("MaxPool", x, outputs=2, kernel_shape=size, storage_order=order, **more)
            model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
            assert_as_onnxruntime(model, {"x": x})


def test_padding_is_the_place_of_no_byte() -> None:
    """ONNX Runtime has no place for windows of the least byte."""
    x = np.zeros((1, 1, 3, 3), np.uint8)
    model = one_op("MaxPool", x, outputs=2, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    np.testing.assert_array_equal(evaluated(model, {"x": x})[1], [[[[0, 0, 1], [0, 0, 1], [3, 3, 4]]]])


def test_places_of_the_largest_run_here() -> None:
    x = drawn(RNG, X, "int8")
    model = one_op("MaxPool", x, outputs=2, kernel_shape=[3, 2], pads=[1, 1, 1, 0])
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    runs_here(model, {"x": x})


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"])
def test_the_whole_image_is_one_window(op: str) -> None:
    for shape in ((2, 3, 7), (2, 3, 1, 2), X, (1, 2, 2, 5, 7)):
        x = drawn(RNG, shape)
        assert_as_onnxruntime(one_op(op, x), {"x": x}, ulps=0 if op == "GlobalMaxPool" else 4)


@pytest.mark.parametrize("p", [3, 5])
def test_norms_of_other_degrees_are_powers(p: int) -> None:
    x = drawn(RNG, X)
    assert_as_onnxruntime(one_op("LpPool", x, kernel_shape=[2, 2], p=p), {"x": x}, ulps=16)


def test_few_elements_are_a_map_and_many_are_folded() -> None:
    x = drawn(RNG, X)
    kinds = [keys_of(one_op("MaxPool", x, kernel_shape=size))[0].partition(":")[0] for size in ((4, 4), (4, 5))]
    assert kinds == ["map", "reduce"]


def test_a_pool_runs_here() -> None:
    x = drawn(RNG, X)
    runs_here(one_op("AveragePool", x, kernel_shape=[2, 2], pads=[0, 0, 1, 1], strides=[2, 2]), {"x": x})
