"""The ends of a network run on kernels if all adjacent layers do."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from session_comparison import RUNS, assert_equal

from qconv.conversion import Dequantize, Quantize
from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.network import IntegerConvolution, Layer, Network, Served, Tensor, Value, read_layer, serve_ends
from qconv.onnx import Session

CPU = open_device("cpu")
SCALE, ZERO = np.float32(0.037), np.uint8(19)


def network_of(
    extra: tuple[Layer, ...] = (), outputs: tuple[str, ...] = ("y",), x_type: str = "float32", **constants: Any
) -> tuple[Network, dict[str, IntegerConvolution]]:
    """Return x -> QuantizeLinear -> convolution -> DequantizeLinear -> y."""
    held = {"s": SCALE, "z": ZERO, "w": np.ones((2, 3, 1, 1), np.int8), "w_s": np.float32(1), "w_z": np.int8(0)}
    layers = (
        Layer("quantize", "QuantizeLinear", ("x", "s", "z"), ("q",)),
        Layer("conv", "QLinearConv", ("q", "s", "z", "w", "w_s", "w_z", "s", "z"), ("c",)),
        Layer("dequantize", "DequantizeLinear", ("c", "s", "z"), ("y",)),
        *extra,
    )
    types = {"x": x_type, "q": "uint8", "c": "uint8", "y": "float32"}
    tensors = {name: Tensor(name, dtype) for name, dtype in types.items()}
    known = {name: np.asarray(array) for name, array in {**held, **constants}.items() if array is not None}
    network = Network(("x",), outputs, layers, tensors, known)
    return network, {"conv": read_layer(layers[1], network)} if "s" in known and known["s"].size == 1 else {}


def computed(one: Served, x: Any) -> Any:
    return one.prepare([x.shape], CPU)(Value(CPU, host=x)).on_host


def test_both_ends_have_the_bits_of_onnx() -> None:
    found = serve_ends(*network_of())[0]
    assert sorted(found) == ["conv", "dequantize", "quantize"]
    x = np.random.default_rng(2).uniform(-1, 10, (2, 3, 5, 7)).astype(np.float32)
    x.flat[:9] = np.arange(9) * SCALE + SCALE / 2  # ties, or next to one
    wanted = np.clip(np.rint(x / SCALE) + int(ZERO), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(computed(found["quantize"], x), wanted)
    real = (wanted.astype(np.float32) - np.float32(ZERO)) * SCALE
    np.testing.assert_array_equal(computed(found["dequantize"], wanted), real)


@pytest.mark.parametrize(
    ("name", "why", "changed"),
    [
        (
            "quantize",
            r"are read elsewhere, by MaxPool \(pool\)",
            {"extra": (Layer("pool", "MaxPool", ("q",), ("p",)),)},
        ),
        ("quantize", "are an output of the network", {"outputs": ("y", "q")}),
        ("dequantize", r"are read elsewhere, by Relu \(relu\)", {"extra": (Layer("relu", "Relu", ("y",), ("r",)),)}),
        ("quantize", "float16, uint8 and a scale of float32", {"x_type": "float16"}),
    ],
)
def test_an_end_that_touches_others_is_left_to_them(name: str, why: str, changed: dict[str, Any]) -> None:
    found, left = serve_ends(*network_of(**changed))
    assert set(found) == {"quantize", "conv", "dequantize"} - {name}
    assert list(left) == [name]
    assert re.search(why, str(left[name]))


def test_a_layer_between_floats_says_who_makes_and_who_reads_them() -> None:
    extra = (
        Layer("relu", "Relu", ("y",), ("r",)),
        Layer("again", "QuantizeLinear", ("r", "s", "z"), ("q2",)),
        Layer("back", "DequantizeLinear", ("q2", "s", "z"), ("y2",)),
    )
    _, left = serve_ends(*network_of(extra))
    assert str(left["again"]) == "the floats that it reads come from elsewhere, of Relu (relu)"
    assert str(left["back"]) == "the bytes that it reads come from elsewhere"


@pytest.mark.parametrize("scale", [np.float32([0.1, 0.2, 0.3]), None])
def test_one_scale_is_needed_that_is_constant(scale: Any) -> None:
    network, _ = network_of(s=scale)
    _, served = network_of()
    assert list(serve_ends(network, served)[0]) == ["conv"]


def test_an_empty_array_has_no_kernel() -> None:
    found = serve_ends(*network_of())[0]
    with pytest.raises(ValueError, match="no element"):
        found["quantize"].prepare([(0, 3, 5, 7)], CPU)


@pytest.fixture
def nothing_is_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    def exchanged(device: Any, array: Any) -> Any:
        raise AssertionError("a kernel of its own turns the tensor")

    monkeypatch.setattr(CpuDevice, "exchanged", exchanged)


@pytest.mark.usefixtures("nothing_is_turned")
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 32, 4, 4), (3, 1, 5, 7), (2, 40, 1, 1), (2, 3, 9)])
def test_images_are_turned_by_the_kernels_of_the_ends(shape: tuple[int, ...]) -> None:
    found = serve_ends(*network_of())[0]
    x = np.random.default_rng(3).uniform(-1, 10, shape).astype(np.float32)
    quantize, dequantize = (found[name].prepare([shape], CPU) for name in ("quantize", "dequantize"))
    made = quantize(Value(CPU, host=x))
    wanted = np.clip(np.rint(x / SCALE) + int(ZERO), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(made.channels_last, np.moveaxis(wanted, 1, -1))
    back = dequantize(Value(CPU, channels_last=made.channels_last))
    np.testing.assert_array_equal(back.on_device, (wanted.astype(np.float32) - np.float32(ZERO)) * SCALE)
    # If nothing is transposed, one scale serves the whole tensor.
    sizes = (1, 1, x.size) if 1 in (shape[1], np.prod(shape[2:])) else (shape[0], shape[1], int(np.prod(shape[2:])))
    turns = sizes[1] > 1
    assert quantize.problems == (Quantize(*sizes, out_type="uint8", zero_point=True, channels_last=turns),)
    assert dequantize.problems == (Dequantize(*sizes, x_type="uint8", zero_point=True, channels_last=turns),)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("MaxPool", ("q",), {"kernel_shape": [2, 2]}),
        ("Concat", ("q", "q"), {"axis": 1}),
        ("Pad", ("q", "pads"), {}),
    ],
)
def test_one_reader_of_images_is_enough(op: str, inputs: tuple[str, ...], attributes: dict[str, Any]) -> None:
    """The others would have transposed the tensor, or transpose it back as often."""
    other = Layer("other", op, inputs, ("o",), attributes)
    network, served = network_of((other,), pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    rows = replace(served["conv"], axes=0)
    found = serve_ends(network, {"conv": rows, "other": read_layer(other, network)})[0]
    x = np.random.default_rng(5).uniform(-1, 10, (1, 3, 4, 4)).astype(np.float32)
    made = found["quantize"].prepare([x.shape], CPU)(Value(CPU, host=x))
    assert made.is_channels_last
    wanted = np.clip(np.rint(x / SCALE) + int(ZERO), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(made.on_device, wanted)


@pytest.mark.parametrize(("shape", "beside"), [((2, 33, 4, 4), "conv"), ((2, 3, 4, 4), "matrix"), ((2, 3), "conv")])
def test_other_tensors_keep_their_order(shape: tuple[int, ...], beside: str) -> None:
    """Covers more channels than a thread handles, rows for a matrix product, and tensors that are not images."""
    network, served = network_of()
    if beside == "matrix":
        served = {"conv": replace(served["conv"], axes=0)}
    x = np.random.default_rng(4).uniform(-1, 10, shape).astype(np.float32)
    prepared = serve_ends(network, served)[0]["quantize"].prepare([shape], CPU)
    assert prepared.problems == (Quantize(1, 1, x.size, out_type="uint8", zero_point=True),)
    made = prepared(Value(CPU, host=x))
    assert not made.is_channels_last
    wanted = np.clip(np.rint(x / SCALE) + int(ZERO), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(made.on_host, wanted)


def session_of(before: list[Any], behind: list[Any], shape: list[Any], constants: dict[str, Any]) -> Any:
    """Return a model: moves of the floats x to a, a quantized convolution of 8 channels, and moves of b to y. Its
    weights have 7 bits: without VNNI, ONNX Runtime saturates sums of larger ones with uint8."""
    node, rng = onnx.helper.make_node, np.random.default_rng(1)
    held = {"s": SCALE, "z": ZERO, "w": rng.integers(-64, 64, (8, 8, 1, 1)).astype(np.int8), "w_s": np.float32(0.01)}
    held |= {"w_z": np.int8(0)} | constants
    nodes = [
        *(node(op, names, made, **given) for op, names, made, given in before),
        node("QuantizeLinear", ["a", "s", "z"], ["q"]),
        node("QLinearConv", ["q", "s", "z", "w", "w_s", "w_z", "s", "z"], ["c"]),
        node("DequantizeLinear", ["c", "s", "z"], ["b"]),
        *(node(op, names, made, **given) for op, names, made, given in behind),
    ]
    graph = onnx.helper.make_graph(
        nodes, "moves", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=name) for name in ("y", "v") if any(name in one.output for one in nodes)],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )  # fmt: skip
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


LAST_FIRST = ("Transpose", ["x"], ["a"], {"perm": [0, 3, 1, 2]})
SHUFFLED = ("DepthToSpace", ["b"], ["y"], {"blocksize": 2})


@pytest.mark.parametrize(
    ("before", "behind", "shape"),
    [
        ([LAST_FIRST], [("Transpose", ["b"], ["y"], {"perm": [0, 2, 3, 1]})], (2, 5, 3, 8)),
        (
            [("Reshape", ["x", "flat"], ["r"], {}), ("Transpose", ["r"], ["a"], {"perm": [0, 3, 1, 2]})],
            [SHUFFLED, ("Transpose", ["b"], ["t"], {"perm": [0, 2, 3, 1]}), ("Flatten", ["t"], ["v"], {})],
            (2, 120),
        ),
        ([("SpaceToDepth", ["x"], ["a"], {"blocksize": 2})], [SHUFFLED], (2, 2, 6, 4)),
    ],
)
def test_floats_may_be_moved_between_the_caller_and_a_conversion(
    before: list[Any], behind: list[Any], shape: tuple[int, ...]
) -> None:
    model = session_of(before, behind, ["N", *shape[1:]], {"flat": np.array([-1, 5, 3, 8], np.int64)})
    session = Session(model, "cpu", strict=True)
    for seed in range(RUNS):
        fed = {"x": np.random.default_rng(seed).uniform(-1, 10, shape).astype(np.float32)}
        for got, wanted in zip(session.run(None, fed), networks.by_ort(model, fed), strict=True):
            assert_equal(got, wanted, f"run {seed}")


@pytest.mark.parametrize(
    ("before", "behind", "op"),
    [
        (
            [LAST_FIRST],
            [("DepthToSpace", ["b"], ["t"], {"blocksize": 2}), ("Relu", ["t"], ["y"], {})],
            "DequantizeLinear",
        ),
        ([LAST_FIRST, ("Relu", ["a"], ["v"], {})], [("Identity", ["b"], ["y"], {})], "QuantizeLinear"),
        ([("Relu", ["x"], ["t"], {}), ("Transpose", ["t"], ["a"], LAST_FIRST[3])], [SHUFFLED], "QuantizeLinear"),
    ],
)
def test_floats_that_are_computed_elsewhere_are_converted_there(before: list[Any], behind: list[Any], op: str) -> None:
    model = session_of(before, behind, ["N", 5, 3, 8], {})
    session = Session(model, "cpu", bits="onnxruntime")
    fed = {"x": np.random.default_rng(0).uniform(-1, 10, (2, 5, 3, 8)).astype(np.float32)}
    wanted = networks.by_ort(model, fed)
    for one in (session, Session(model, "cpu", strict=True)):  # a Relu of the default is exact too
        for got, each in zip(one.run(None, fed), wanted, strict=True):
            assert_equal(got, each, op)
    fallen = session.explain().fallen_back
    assert (fallen["Relu"], fallen[op]) == (1, 1)
    assert {"QuantizeLinear", "DequantizeLinear"} - {op} - set(fallen), "the other end runs here"
