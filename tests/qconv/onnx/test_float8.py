"""Sessions with tensors of 8-bit floats, on kernels and in ONNX Runtime, beside ONNX Runtime alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from float8_boundaries import float8_boundaries
from onnx import helper, numpy_helper

import qconv.onnx
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.errors import SlowNetwork
from qconv.onnx import float8

X = (np.random.default_rng(1).standard_normal((2, 3, 40)) * 9).astype(np.float32)


def number(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(ELEMENT_TYPES[dtype].numpy))


def model_of(nodes: list[Any], y: dict[str, int], dtype: str, x: Any = X) -> onnx.ModelProto:
    kind = ELEMENT_TYPES[dtype].numpy
    held = {"scale": np.float32([0.03, 0.5, 1.25]), "zero": np.zeros(3, kind)}
    graph = helper.make_graph(
        nodes,
        "floats of 8 bits",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info(name, code, x.shape) for name, code in y.items()],
        [numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def beside_onnxruntime(model: onnx.ModelProto, x: Any) -> qconv.onnx.Session:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in theirs.get_outputs()]
    session = qconv.onnx.Session(model, "cpu")
    for got, want in zip(session.run(None, {"x": x}), float8.run(theirs, names, {"x": x}), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
    return session


@pytest.mark.parametrize("dtype", FLOAT8)
def test_quantized_dequantized_and_what_lies_between_are_kernels(dtype: str) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1),
        helper.make_node("Reshape", ["q", "shape"], ["r"]),
        helper.make_node("Reshape", ["r", "back"], ["s"]),
        helper.make_node("DequantizeLinear", ["s", "scale", "zero"], ["d"], axis=1),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    model = model_of(nodes, {"y": 1, "q": number(dtype)}, dtype)
    for name, shape in (("shape", (6, 40)), ("back", X.shape)):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(shape), name))
    session = beside_onnxruntime(model, X)
    assert not session.explain().fallen_back


@pytest.mark.parametrize("dtype", FLOAT8)
def test_a_part_that_does_not_saturate_runs_in_onnxruntime(dtype: str) -> None:
    """8-bit floats cross into that part, and out of it."""
    other = next(name for name in FLOAT8 if name != dtype)
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=number(dtype)),
        helper.make_node("Cast", ["a"], ["b"], to=number(other), saturate=0),
        helper.make_node("Cast", ["b"], ["c"], to=1),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    x = np.resize(float8_boundaries(dtype), X.shape)
    with pytest.warns(SlowNetwork):
        session = beside_onnxruntime(model_of(nodes, {"y": 1, "a": number(dtype), "b": number(other)}, dtype), x)
    assert "saturate=0" in str(session.explain().causes)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_8_bit_floats_are_fed(dtype: str) -> None:
    x = np.resize(np.arange(256, dtype=np.uint8), X.shape).view(ELEMENT_TYPES[dtype].numpy)
    node = helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"], axis=1)
    assert not beside_onnxruntime(model_of([node], {"y": 1}, dtype, x), x).explain().fallen_back
