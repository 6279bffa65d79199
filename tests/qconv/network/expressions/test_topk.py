"""TopK: the results are ONNX Runtime's, of equal elements the earlier ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, evaluated, fused, model_of_nodes, one_op, runs_here
from onnx import helper

from qconv.onnx import Session
from qconv.onnx.model import read

RNG = np.random.default_rng(62)
# The shape of x, the axis, and k.
CASES = [((3, 7), 1, 3), ((3, 7), 0, 3), ((2, 5, 4), -2, 5), ((9,), 0, 1), ((2, 3, 4, 5), 1, 2), ((4, 1), 1, 1)]


def few(shape: tuple[int, ...], dtype: str) -> Any:
    """Return elements of which many are equal."""
    return RNG.integers(0, 4, shape).astype(dtype)


@pytest.mark.turns
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize(("shape", "axis", "k"), CASES)
def test_values_and_places(shape: tuple[int, ...], axis: int, k: int, dtype: str, largest: int) -> None:
    x = few(shape, dtype)
    assert_as_onnxruntime(one_op("TopK", x, np.array([k]), outputs=2, axis=axis, largest=largest), {"x": x})


def test_a_number_of_the_layer_itself() -> None:
    """In the first version k is an attribute."""
    x = few((3, 6), "float32")
    assert_as_onnxruntime(one_op("TopK", x, outputs=2, opset=1, k=4, axis=1), {"x": x})


def test_one_output_alone() -> None:
    x = few((3, 8), "float32")
    both = evaluated(one_op("TopK", x, np.array([3]), outputs=2), {"x": x})
    for number in range(2):
        nodes = [
            helper.make_node("TopK", ["x", "k"], ["y0", "y1"]),
            helper.make_node("Identity", [f"y{number}"], ["z"]),
        ]
        model = model_of_nodes(nodes, {"x": x}, {"k": np.array([3])})
        np.testing.assert_array_equal(evaluated(model, {"x": x})[0], both[number])


def test_a_nan_has_the_place_of_infinity() -> None:
    x = np.array([[1, np.nan, -np.inf, np.inf, 2, np.nan]], np.float32)
    for largest, wanted in ((1, [1, 3, 5, 4, 0, 2]), (0, [2, 0, 4, 1, 3, 5])):
        values, places = evaluated(one_op("TopK", x, np.array([6]), outputs=2, largest=largest), {"x": x})
        np.testing.assert_array_equal(places, [wanted])
        np.testing.assert_array_equal(values, x[:, wanted])


def test_the_input_may_be_computed_and_the_places_may_be_read() -> None:
    x = few((2, 12), "float32")
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("TopK", ["n", "k"], ["v", "i"]),
        helper.make_node("GatherElements", ["x", "i"], ["g"], axis=1),
        helper.make_node("Add", ["g", "v"], ["y"]),
    ]
    model = model_of_nodes(nodes, {"x": x}, {"k": np.array([5])})
    assert (evaluated(model, {"x": x})[0] == 0).all()
    assert_as_onnxruntime(model, {"x": x})


def test_what_runs_elsewhere_is_whole() -> None:
    """A row of very many elements has too many pairs; ONNX Runtime computes the layer as it is."""
    x = np.zeros((1, 2**17), np.float32)
    model = one_op("TopK", x, np.array([2]), outputs=2)
    _, why_not, _ = fused(model)
    assert list(map(str, why_not.values())) == ["no kernel here computes TopK"]
    assert [layer.op for layer in read(model, {}).network.layers] == ["TopK"]
    x[0, [5, 9]] = 3, 4
    session = Session(model, "cpu")
    np.testing.assert_array_equal(session.run(None, {"x": x})[1], [[9, 5]])


def test_it_runs_here() -> None:
    x = few((2, 40), "uint8")
    runs_here(one_op("TopK", x, np.array([9]), outputs=2), {"x": x})


@pytest.mark.slow
def test_the_rows_of_a_detector() -> None:
    x = np.round(RNG.standard_normal((1, 8400)), 2).astype(np.float32)
    model = one_op("TopK", x, np.array([300]), outputs=2)
    assert_as_onnxruntime(model, {"x": x})
    runs_here(model, {"x": x})
