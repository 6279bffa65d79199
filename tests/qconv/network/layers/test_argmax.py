"""ArgMax in a session gives ONNX Runtime's indices, and DequantizeLinear before it is folded where possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from integer_model import Model
from one_node import node_of, whole_range
from onnx import TensorProto, helper
from session_comparison import assert_equal

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Value, fold_dequantized, read_layer
from qconv.network.graph.served import Served
from qconv.network.layers.argmax import Indices
from qconv.onnx import Session

CPU = open_device("cpu")
SHAPES = ((2, 5, 4, 3), (1, 16, 6, 1), (3, 7, 9), (4, 11), (17,), (2, 3, 2, 3, 2))
CASES = [(shape, axis) for shape in SHAPES for axis in (*range(len(shape)), -1)]


def few_values(shape: tuple[int, ...], dtype: str) -> Any:
    """Draw few values, so that the largest occurs several times."""
    x = whole_range(np.random.default_rng(len(shape)), dtype, shape)
    return x // 32 * 32


def compared(model: Any, feeds: dict[str, Any], what: str) -> list[Any]:
    session = Session(model, "cpu")
    for _ in range(2):  # the second run is recorded
        for got, wanted in zip(session.run(None, feeds), networks.by_ort(model, feeds), strict=True):
            assert_equal(got, wanted, what)
    return list(session.explain().rows)


@pytest.mark.turns
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_every_axis(shape: tuple[int, ...], axis: int) -> None:
    for at, dtype in enumerate(("int8", "uint8")):
        for last in (0, 1):
            keepdims = (last + at) % 2
            attributes = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
            model, feeds = node_of("ArgMax", {"x": few_values(shape, dtype)}, **attributes)
            model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
            (row,) = compared(model, feeds, f"{dtype} {shape} {attributes}")
            assert row.runs_on == "qconv", row.why


def test_what_is_not_given_is_as_onnx_has_it() -> None:
    model, feeds = node_of("ArgMax", {"x": few_values((3, 4, 5), "uint8")})
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    (row,) = compared(model, feeds, "axis 0, kept, the first")
    assert row.why.startswith("argmax, ")


@pytest.mark.parametrize(("axis", "keepdims"), [(1, 0), (1, 1), (2, 0), (-1, 0), (-1, 1), (0, 0)])
def test_behind_a_convolution_whose_channels_are_last(axis: int, keepdims: int) -> None:
    made = Model("int8")
    x, numbers = made.input(2, 8, 5, 6), made.numbers()
    y = made.conv(x, 8, 12, numbers, numbers)
    index = made.node("ArgMax", [y], axis=axis, keepdims=keepdims)
    model = made.made(y)
    model.graph.output.append(helper.make_tensor_value_info(index, TensorProto.INT64, None))
    rows = compared(model, made.fed, f"{axis} {keepdims}")
    assert [row.runs_on for row in rows] == ["qconv", "qconv"]


@pytest.mark.parametrize("form", networks.FORMATS)
def test_a_network_that_names_the_class_of_every_pixel(form: str) -> None:
    b = networks.Builder(3)
    x = b.node("Relu", b.conv("x", 3, 8, stride=2))
    y = b.node("ArgMax", b.conv(x, 8, 11), axis=1, keepdims=0)
    model = b.model(y)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    model.graph.output[0].type.tensor_type.ClearField("shape")
    quantized = networks.quantized(model, form, "u8u8", per_channel=False)
    rows = compared(quantized, {"x": networks.images(2, 9)}, form)
    assert {row.runs_on for row in rows} == {"qconv"}


@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_that_is_not_there_is_for_onnx_runtime_to_refuse(axis: int) -> None:
    layer = Layer("index", "ArgMax", ("q",), ("y",), {"axis": axis})
    network = Network(("q",), ("y",), (layer,), {"q": Tensor("q", "int8")}, {})
    with pytest.raises(ValueError, match=f"axis={axis} is out of range for x with shape"):
        read_layer(layer, network).prepare([(2, 3, 4)], CPU)


def dequantized(
    outputs: tuple[str, ...] = ("y",), extra: tuple[Layer, ...] = (), **changed: Any
) -> tuple[Network, dict[str, Served]]:
    """A max pool of bytes, DequantizeLinear and ArgMax, folded."""
    attributes = {"output_dtype": changed.pop("output_dtype")} if "output_dtype" in changed else {}
    held = {"s": np.float32(0.05), "z": np.int8(4)} | changed
    layers = (
        Layer("pool", "MaxPool", ("x",), ("q",), {"kernel_shape": [1, 1]}),
        Layer("real", "DequantizeLinear", ("q", *held), ("f",), attributes),
        Layer("index", "ArgMax", ("f",), ("y",), {"axis": 1, "keepdims": 0}),
        *extra,
    )
    tensors = {"x": Tensor("x", "int8"), "q": Tensor("q", "int8"), "f": Tensor("f", "float32")}
    constants = {name: np.asarray(array) for name, array in held.items()}
    network = Network(("x",), outputs, layers, tensors, constants)
    return fold_dequantized(network, {"pool": read_layer(layers[0], network)})


def test_bytes_are_compared_instead_of_what_they_stand_for() -> None:
    x = few_values((2, 40, 3, 3), "int8")
    for scale in (0.05, np.finfo(np.float32).tiny, 1e36, 0.1 / 3):
        network, served = dequantized(s=np.float32(scale))
        assert [layer.name for layer in network.layers] == ["pool", "index"]
        assert [part.op for part in served["index"].layer.parts] == ["DequantizeLinear", "ArgMax"]
        made = served["index"].prepare([x.shape], CPU)(Value(CPU, host=x)).on_host
        real = (x.astype(np.float32) - np.float32(4)) * np.float32(scale)
        np.testing.assert_array_equal(made, real.argmax(axis=1))


def test_no_two_bytes_become_one_number() -> None:
    """Checks the fold's claim at the ends of its scales and for many between them."""
    steps = np.arange(-255, 256).astype(np.float32)
    limits = np.finfo(np.float32)
    some = np.exp(np.random.default_rng(1).uniform(np.log(1e-37), np.log(1e36), 20_000)).astype(np.float32)
    for scale in (limits.tiny, limits.max / np.float32(255), *some):
        made = steps * scale
        assert np.isfinite(made).all()
        assert (np.diff(made) > 0).all()


@pytest.mark.parametrize(
    "changed",
    [
        {"s": np.float32(-0.05)},
        {"s": np.float32(0)},
        {"s": np.float32(1e-40)},  # some processors flush it to zero
        {"s": np.float32(3e36)},  # infinite from 114 steps on
        {"s": np.float32(np.nan)},
        {"s": np.float16(0.05)},
        {"s": np.full(40, 0.05, np.float32), "z": np.zeros(40, np.int8)},
        {"output_dtype": 10},
    ],
)
def test_what_might_make_equals_of_bytes_is_not_folded(changed: dict[str, Any]) -> None:
    network, served = dequantized(**changed)
    assert [layer.name for layer in network.layers] == ["pool", "real", "index"]
    assert set(served) == {"pool"}


def test_numbers_that_others_read_stay() -> None:
    for outputs, extra in ((("y", "f"), ()), (("y", "r"), (Layer("relu", "Relu", ("f",), ("r",)),))):
        network, served = dequantized(outputs, extra)
        assert [layer.name for layer in network.layers][:3] == ["pool", "real", "index"]
        assert isinstance(served["index"], Indices)
        assert served["index"].inputs == ("q",)


def test_bytes_that_are_made_elsewhere_stay_there() -> None:
    network, _ = dequantized()
    unfolded = tuple(part for layer in network.layers for part in layer.unfolded)
    read = Network(network.inputs, network.outputs, unfolded, network.tensors, network.constants)
    same, served = fold_dequantized(read, {})
    assert served == {}
    assert same.layers == unfolded
