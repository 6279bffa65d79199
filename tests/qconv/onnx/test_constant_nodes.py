"""Nodes that follow from constants behind a DequantizeLinear, which ONNX Runtime leaves in a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import quantized_networks as networks
from onnx import TensorProto, helper, numpy_helper
from session_comparison import assert_equal

from qconv.onnx import Session
from qconv.onnx.constant_nodes import with_constants_computed

RNG = np.random.default_rng(11)
SCALES = {"x_scale": 0.02, "w_scale": 0.01, "n_scale": 0.03, "y_scale": 0.05}


def standardized(bound: bool = True) -> onnx.ModelProto:
    """Return a convolution whose filters a BatchNormalization in training standardizes, as networks without BatchNorm
    on their activations are exported. Where they are not bound, a caller may override them."""
    held: dict[str, Any] = {name: np.float32(value) for name, value in SCALES.items()}
    held |= {"zero": np.uint8(3), "none": np.int8(0)}
    held |= {"w": RNG.integers(-127, 128, (1, 16, 72)).astype(np.int8), "shape": np.asarray((16, 8, 3, 3), np.int64)}
    held |= {name: np.ones(16, np.float32) for name in ("gain", "variance")}
    held |= {name: np.zeros(16, np.float32) for name in ("bias", "mean")}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "w_scale", "none"], ["w_real"]),
        helper.make_node(
            "BatchNormalization", ["w_real", "gain", "bias", "mean", "variance"], ["normal", "mean_of", "variance_of"],
            training_mode=1, epsilon=1e-5,
        ),
        helper.make_node("Reshape", ["normal", "shape"], ["filters"]),
        helper.make_node("QuantizeLinear", ["filters", "n_scale", "none"], ["filters_q"]),
        helper.make_node("DequantizeLinear", ["filters_q", "n_scale", "none"], ["filters_real"]),
        helper.make_node("QuantizeLinear", ["x", "x_scale", "zero"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "x_scale", "zero"], ["x_real"]),
        helper.make_node("Conv", ["x_real", "filters_real"], ["y_real"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["y_real", "y_scale", "zero"], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", "y_scale", "zero"], ["y"]),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8, 7, 6])]
    if not bound:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.INT8, [1, 16, 72]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "standardized", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_standardized_filters_are_constants() -> None:
    model, fed = standardized(), {"x": RNG.standard_normal((2, 8, 7, 6)).astype(np.float32)}
    session = Session(model, "cpu")
    assert session.explain().fallen_back == {}
    assert [problem.quantization.w_type for problem in session.problems if problem.op == "conv2d"] == ["int8"]
    assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], "standardized")


def test_filters_stay_integers_in_front_of_other_nodes() -> None:
    folded = with_constants_computed(standardized(), {}).graph
    ops = [node.op_type for node in folded.node]
    assert ops == [
        "DequantizeLinear",
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
        "QuantizeLinear",
        "DequantizeLinear",
    ]
    (filters,) = (tensor for tensor in folded.initializer if tensor.name == folded.node[0].input[0])
    assert numpy_helper.to_array(filters).dtype == np.int8


def test_filters_that_a_caller_may_override_stay() -> None:
    model = standardized(bound=False)
    assert with_constants_computed(model, {}) is model


def test_a_model_of_quantized_constants_stays() -> None:
    model = networks.quantized(networks.resnet_like(), "QDQ", "u8s8", per_channel=True)
    assert with_constants_computed(model, {}) is model


def test_a_constant_output_is_computed_once() -> None:
    model = standardized()
    model.graph.output.append(helper.make_tensor_value_info("mean_of", TensorProto.FLOAT, None))
    fed = {"x": RNG.standard_normal((2, 8, 7, 6)).astype(np.float32)}
    for got, wanted in zip(Session(model, "cpu").run(None, fed), networks.by_ort(model, fed), strict=True):
        assert_equal(got, wanted, "standardized, and a mean")


def test_a_sequence_stays() -> None:
    """Only one of its two tensors is read, and at each run another one."""
    held = {"w": np.float32(0.5), "one": np.arange(3, dtype=np.int8), "other": np.arange(3, 6, dtype=np.int8)}
    nodes = [
        *(helper.make_node("DequantizeLinear", [name, "w"], [f"{name}_real"]) for name in ("one", "other")),
        helper.make_node("SequenceConstruct", ["one_real", "other_real"], ["both"]),
        helper.make_node("SequenceAt", ["both", "at"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "sequence", [helper.make_tensor_value_info("at", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folded = with_constants_computed(model, {})
    for at in (0, 1):
        fed = {"at": np.asarray(at, np.int64)}
        assert_equal(networks.by_ort(folded, fed)[0], networks.by_ort(model, fed)[0], f"element {at}")
