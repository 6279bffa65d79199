"""Functions of bytes in a session match ONNX Runtime bit for bit, for every byte and either memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_node import drawn, model_of, node_of, runs_on

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Unserved, Value, read_layer
from qconv.network.layers.table import codes

BYTES = ("int8", "uint8")


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize(
    ("op", "attributes"),
    [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", {"alpha": 0.3})],
)
def test_quantized_functions(op: str, attributes: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(3)
    for shape in ((256,), (2, 16, 2, 4), (16, 16)):
        x = codes(dtype).reshape(shape)
        operand, y = (x, *drawn(rng, dtype, ())[1:]), drawn(rng, dtype, ())
        row = runs_on(*model_of(op, [operand], y, **attributes), f"{dtype} {shape}")
        assert row.runs_on == "qconv", row.why


@pytest.mark.parametrize(
    ("dtype", "op", "limits"),
    [
        ("int8", "Relu", {}),
        ("int8", "Clip", {"low": np.int8(-5), "high": np.int8(77)}),
        ("uint8", "Clip", {"low": np.uint8(3), "high": None}),
        ("uint8", "Clip", {"low": None, "high": np.uint8(200)}),
        ("int8", "Clip", {"low": np.int8(9), "high": np.int8(-9)}),
    ],
)
def test_clamps_of_bytes(dtype: str, op: str, limits: dict[str, Any]) -> None:
    row = runs_on(*node_of(op, {"x": codes(dtype).reshape(4, 64), **limits}), f"{dtype} {limits}")
    assert row.runs_on == "qconv", row.why


def layer_of(op: str = "com.microsoft.QLinearSigmoid", **changed: Any) -> Any:
    held = {"x_s": np.float32(0.1), "x_z": np.uint8(3), "y_s": np.float32(0.1), "y_z": np.uint8(4)}
    held = {name: np.asarray(value) for name, value in (held | changed).items() if value is not ...}
    layer = Layer("layer", op, ("x", "x_s", "x_z", "y_s", "y_z"), ("y",))
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", "uint8")}, held))


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("constant y_scale: 'y_s' is computed", {"y_s": ...}),
        ("must be finite and positive", {"x_s": np.float32(-1)}),
        ("x_scale has 2 values", {"x_s": np.float32([1, 2])}),
        ("constant min: 'x_s' is computed", {"op": "Clip", "x_s": ...}),
    ],
)
def test_what_is_not_served_says_why(why: str, given: dict[str, Any]) -> None:
    with pytest.raises(Unserved, match=why):
        layer_of(**given)


def test_a_tensor_stays_in_the_order_in_which_it_lies() -> None:
    device = open_device("cpu")
    x = device.upload(np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4))
    for value in (Value(device, channels_last=x), Value(device, there=x)):
        y = layer_of().prepare((value.shape,), device)(value)
        assert y.is_channels_last is value.is_channels_last
        np.testing.assert_array_equal(y.on_host, layer_of().table[value.on_host])


def test_an_empty_tensor_has_no_kernel() -> None:
    with pytest.raises(ValueError, match="elements=0"):
        layer_of().prepare(((0, 3),), open_device("cpu"))
