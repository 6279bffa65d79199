"""Models that take integers give the same outputs as with the floats that quantize to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from foreign import Foreign
from onnx import TensorProto, helper, numpy_helper

from qconv.device.cpu import CpuDevice
from qconv.integer_input import IntegerInput
from qconv.onnx import Session, with_integer_inputs

UINT8 = TensorProto.UINT8


def integers(x: Any, given: IntegerInput) -> Any:
    limits = np.iinfo(given.dtype)
    rounded = np.rint(x / np.float32(given.scale)) + given.zero_point
    return rounded.clip(limits.min, limits.max).astype(given.dtype)


def quantized_by(session: Session) -> int:
    return sum(row.op == "QuantizeLinear" for row in session.explain().rows)


@pytest.mark.turns
@pytest.mark.parametrize(("form", "types"), [("QDQ", "u8s8"), ("QOperator", "u8u8"), ("QDQ", "s8s8")])
def test_a_network_of_integers_gives_the_same(form: str, types: str) -> None:
    model = networks.quantized(networks.resnet_like(), form, types, True)
    changed, found = with_integer_inputs(model)
    assert found["x"].dtype == {"u": "uint8", "s": "int8"}[types[0]]
    x = networks.images(2, 9)
    # Otherwise ONNX Runtime computes a convolution of int8 in floats if nothing before it quantizes.
    config = networks.INT8_ALLOWED
    session = Session(changed, "cpu", config=config)
    (wanted,) = networks.by_ort(model, {"x": x}, config)
    (got,) = session.run(None, {"x": integers(x, found["x"])})
    assert np.array_equal(got, wanted)
    assert quantized_by(Session(model, "cpu", config=config)) - quantized_by(session) == 1
    with pytest.raises(ValueError, match=r"the input 'x' is float32; the model takes"):
        session.run(None, {"x": x})


def lying_last(x: Any, offset: int) -> Any:
    """Return the same images in channels-last memory, `offset` bytes after an array's usual start."""
    last = x.transpose(0, 2, 3, 1)
    held = np.empty(last.size + 64, x.dtype)
    begin = -held.ctypes.data % 16 + offset
    lies = held[begin : begin + last.size].reshape(last.shape)
    lies[...] = last
    return lies.transpose(0, 3, 1, 2)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("as_given", [np.asarray, Foreign])
def test_images_whose_channels_lie_last_are_not_turned(
    as_given: Any, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    scale, zero = helper.make_tensor("s", TensorProto.FLOAT, [], [0.02]), helper.make_tensor("z", UINT8, [], [7])
    weights = rng.integers(0, 256, (16, 16, 3, 3), np.uint8)
    w = numpy_helper.from_array(weights, "w")
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], pads=[1] * 4)
    shown, given = (helper.make_tensor_value_info(name, UINT8, ["n", 16, 6, 5]) for name in "xy")
    graph = helper.make_graph([node], "g", [shown], [given], [scale, zero, w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = Session(model, "cpu")
    images = rng.integers(0, 256, (3, 2, 16, 6, 5), np.uint8)
    wanted = [networks.by_ort(model, {"x": x})[0] for x in images]
    turned: list[tuple[int, ...]] = []
    exchanged = CpuDevice.exchanged
    monkeypatch.setattr(CpuDevice, "exchanged", lambda self, x: turned.append(x.shape) or exchanged(self, x))
    for x, want in zip(images, wanted, strict=True):
        np.testing.assert_array_equal(session.run(None, {"x": as_given(lying_last(x, offset))})[0], want)
    assert set(turned) == {(2, 30, 16)}  # the outputs, transposed back


def test_a_path_is_as_good_as_a_model_and_the_model_stays(tmp_path: Path) -> None:
    model = networks.quantized(networks.resnet_like(), "QDQ", "u8s8", True)
    before = model.SerializeToString()
    onnx.save(model, tmp_path / "model.onnx")
    of_path, found = with_integer_inputs(tmp_path / "model.onnx")
    assert (of_path, found) == with_integer_inputs(model)
    assert model.SerializeToString() == before


def of_nodes(*nodes: Any, scales: int = 1, zero_point: bool = True) -> Any:
    numbers = [
        helper.make_tensor("scale", TensorProto.FLOAT, [scales] if scales > 1 else [], [0.5] * scales),
        helper.make_tensor("zero", TensorProto.INT8, [scales] if scales > 1 else [], [3] * scales),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.INT8 if zero_point else TensorProto.UINT8, ["n", 4])
    graph = helper.make_graph(list(nodes), "g", [x], [y], numbers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


QUANTIZE = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], name="q")


def test_what_it_says_of_an_input() -> None:
    assert with_integer_inputs(of_nodes(QUANTIZE))[1] == {"x": IntegerInput("int8", 0.5, 3)}
    without = helper.make_node("QuantizeLinear", ["x", "scale"], ["y"], name="q")
    assert with_integer_inputs(of_nodes(without, zero_point=False))[1] == {"x": IntegerInput("uint8", 0.5, 0)}


RELU = helper.make_node("Relu", ["x"], ["r"], name="first")
AGAIN = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["again"], name="second")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (of_nodes(QUANTIZE, RELU), r"'x' is read by Relu \(first\), where one QuantizeLinear alone should read it"),
        (of_nodes(QUANTIZE, AGAIN), "'x' is read by 2 QuantizeLinear"),
        (of_nodes(QUANTIZE, scales=4), "'x' is quantized to int8 with 4 scales"),
    ],
)
def test_an_input_that_has_to_stay_is_named(model: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"no input can take integers: {says}"):
        with_integer_inputs(model)
