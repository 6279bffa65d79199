"""DynamicQuantizeLinear on kernels, beside ONNX Runtime bit for bit, and the layers that have no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnxruntime
from onnx import TensorProto, helper

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, serve_dynamic, with_scalars
from qconv.network.graph.value import Value

RNG = np.random.default_rng(12)
NAMES = ("y", "y_scale", "y_zero_point")
# Shapes of at most 64 elements share kernels; the last one is larger than what the threads of a block have in flight.
SHAPES = [(2, 3, 4), (24,), (1,), (), (3, 5, 41, 67)]


def by_onnxruntime(x: Any) -> list[Any]:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], NAMES)
    kinds = (TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8)
    graph = helper.make_graph(
        [node],
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(NAMES, kinds, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


def served(dtype: str = "float32", held: Any = None, outputs: tuple[str, ...] = NAMES) -> tuple[Any, Any]:
    layer = Layer("layer", "DynamicQuantizeLinear", ("x",), outputs)
    network = Network(("x",), outputs, (layer,), {"x": Tensor("x", dtype)}, held or {})
    return serve_dynamic(network, {})


def inputs(shape: tuple[int, ...]) -> dict[str, Any]:
    x = np.asarray(RNG.standard_normal(shape), np.float32)
    made = {
        "random": x,
        "all zeros": np.zeros_like(x),
        "all positive": np.abs(x) + np.float32(0.5),
        "all negative": -np.abs(x) - np.float32(3),
        "very large": x * np.float32(1e30),
        "small": x * np.float32(1e-20),
        "one and the same": np.full_like(x, 7.25),
    }
    return {name: np.asarray(each) for name, each in made.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_outputs_are_those_of_onnxruntime(shape: tuple[int, ...]) -> None:
    device = open_device("cpu")
    found, _ = served()
    prepared = found["layer"].prepare([shape], device)
    for name, x in inputs(shape).items():
        made = prepared.outputs(Value(device, host=x))
        for output, want in zip(NAMES, by_onnxruntime(x), strict=True):
            got = made[output].on_host
            assert (made[output].dtype, got.dtype, made[output].shape) == (str(want.dtype), want.dtype, want.shape)
            np.testing.assert_array_equal(got.reshape(want.shape), want, f"{name}: {output}")
        np.testing.assert_array_equal(prepared(Value(device, host=x)).on_host, made["y"].on_host)


def test_bytes_are_in_the_order_of_the_floats() -> None:
    device = open_device("cpu")
    found, _ = served()
    last = np.asarray(RNG.standard_normal((2, 4, 5, 3)), np.float32)
    prepared = found["layer"].prepare([(2, 3, 4, 5)], device)
    made = prepared.outputs(Value(device, channels_last=device.upload(last)))["y"]
    assert made.is_channels_last
    np.testing.assert_array_equal(made.channels_last, by_onnxruntime(last)[0])


def test_outputs_that_nobody_reads_have_no_names() -> None:
    device = open_device("cpu")
    for names in (("y", "y_scale"), ("y", "", "y_zero_point")):
        found, _ = served(outputs=names)
        made = found["layer"].prepare([(4,)], device).outputs(Value(device, host=np.ones(4, np.float32)))
        assert list(made) == [name for name in names if name]


def test_what_is_not_served_says_why() -> None:
    assert served("float16")[1]["layer"].text == "its input 'x' is float16; the kernels quantize float32"
    assert served(held={"x": np.ones(3, np.float32)})[1]["layer"].text == "its input 'x' is a constant"


def test_scales_and_zero_points_have_a_shape() -> None:
    layer = Layer("layer", "DynamicQuantizeLinear", ("x",), NAMES)
    known = {"x": Tensor("x", "float32", (4,)), "y_scale": Tensor("y_scale", "float32")}
    network = with_scalars(Network(("x",), NAMES, (layer,), known, {}))
    assert network.tensor("y_scale") == Tensor("y_scale", "float32", ())
    assert network.tensor("y").shape is None
