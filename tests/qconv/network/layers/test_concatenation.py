"""Joining and splitting tensors in a session, bit for bit as in ONNX Runtime, next to layers on kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from beside import run_beside
from one_node import whole_range
from onnx import helper

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Unserved, Value, one_output_each, read_layer

FULL = (2, 8, 3, 5)


@pytest.mark.turns
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -3])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_concat(axis: int, dtype: str) -> None:
    shapes = {"a": FULL, "b": tuple(4 if at == axis % 4 else extent for at, extent in enumerate(FULL)), "c": FULL}
    session = run_beside(helper.make_node("Concat", list(shapes), ["y"], axis=axis), shapes, {}, dtype)
    assert not session.explain().fallen_back


@pytest.mark.parametrize("axis", [1, 2])
def test_qlinear_concat(axis: int) -> None:
    rng = np.random.default_rng(4)
    for dtype in ("int8", "uint8"):
        shapes = {"a": FULL, "b": FULL, "c": FULL}
        zero = whole_range(rng, dtype, ())
        held = {"y_s": np.float32(0.11), "y_z": zero, "a_s": np.float32(0.07), "a_z": whole_range(rng, dtype, ())}
        held |= {"b_s": np.float32(0.11), "b_z": zero, "c_s": np.float32(0.3), "c_z": zero}
        names = ["y_s", "y_z", *(f"{name}{end}" for name in "abc" for end in ("", "_s", "_z"))]
        node = helper.make_node("QLinearConcat", names, ["y"], domain="com.microsoft", axis=axis)
        assert not run_beside(node, shapes, held, dtype).explain().fallen_back


def test_a_tensor_of_the_same_scale_is_copied() -> None:
    names = ("s", "z", "a", "s", "z", "b", "t", "z")
    layer = Layer("layer", "com.microsoft.QLinearConcat", names, ("y",), {"axis": 1})
    held = {name: np.asarray(value) for name, value in (("s", np.float32(0.1)), ("t", np.float32(0.2)))}
    tensors = {name: Tensor(name, "uint8") for name in "ab"}
    one: Any = read_layer(layer, Network(("a", "b"), ("y",), (layer,), tensors, held | {"z": np.asarray(7, "uint8")}))
    problem, _ = one.problem((FULL, FULL))
    assert problem.tables == (0, 1)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "here"),
    [
        ([2], [7], [1], True),
        ([-3], [2**62], [1], True),
        ([1], [3], [2], True),
        ([0], [-1], [-1], True),
        ([0, 3, 0], [9, 8, 9], [0, 1, 2], True),
        ([0], [100], [1], True),
        ([1, 1], [3, 3], [1, 2], False),
    ],
)
def test_slice(starts: list[int], ends: list[int], axes: list[int], here: bool) -> None:
    held = {name: np.int64(value) for name, value in (("s", starts), ("e", ends), ("a", axes))}
    session = run_beside(helper.make_node("Slice", ["x", *held], ["y"]), {"x": FULL}, held, "int8")
    assert (not session.explain().fallen_back) is here


def test_a_slice_without_axes_begins_at_the_first() -> None:
    held = {"s": np.int64([0, 3]), "e": np.int64([2, 5])}
    session = run_beside(helper.make_node("Slice", ["x", *held], ["y"]), {"x": FULL}, held, "uint8")
    assert not session.explain().fallen_back


@pytest.mark.parametrize(("given", "axis"), [([3, 5], 1), (None, 1), ([1, 4], 3), ([2, 1], -2)])
def test_split(given: list[int] | None, axis: int) -> None:
    held = {} if given is None else {"k": np.int64(given)}
    node = helper.make_node("Split", ["x", *held], ["y", "z"], axis=axis)
    session = run_beside(node, {"x": FULL}, held, "int8", ("y", "z"))
    explanation = session.explain()
    assert not explanation.fallen_back
    rows = [row for row in explanation.rows if row.op == "Split"]
    assert len(rows) == 2
    assert not any("folded" in row.why for row in rows)


@pytest.mark.parametrize(("parts", "axis"), [(3, 1), (3, -3), (2, 3), (2, -2), (2, 0)])
def test_the_last_of_equal_parts_is_what_is_left(parts: int, axis: int) -> None:
    outputs = ("y", "z", "v")[:parts]
    node = helper.make_node("Split", ["x"], outputs, axis=axis, num_outputs=parts)
    session = run_beside(node, {"x": FULL}, {}, "uint8", outputs, opset=18)
    assert not session.explain().fallen_back


def test_a_split_of_an_older_model_has_its_widths_as_an_attribute() -> None:
    node = helper.make_node("Split", ["x"], ["y", "z", "v"], axis=-3, split=[1, 5, 2])
    session = run_beside(node, {"x": FULL}, {}, "int8", ("y", "z", "v"), opset=12)
    assert not session.explain().fallen_back


def test_a_split_that_runs_elsewhere_is_one_node_there() -> None:
    """The caller's input is split for the caller."""
    node = helper.make_node("Split", ["x_fed"], ["y", "z"], axis=1)
    session = run_beside(node, {"x": FULL}, {}, "int8", ("y", "z"), bits="onnxruntime")
    assert session.explain().fallen_back["Split"] == 2


def layer_of(op: str, *, attributes: dict[str, Any] | None = None, **constants: Any) -> Any:
    held = {name: np.asarray(value) for name, value in constants.items() if value is not ...}
    layer = Layer("layer", op, ("x", *constants), ("y",), attributes or {})
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", "uint8")}, held))


@pytest.mark.parametrize(
    ("why", "op", "given"),
    [
        ("its input 'b' is a constant", "Concat", {"attributes": {"axis": 1}, "b": np.uint8([1])}),
        ("starts and ends are attributes", "Slice", {"attributes": {"starts": [1], "ends": [2]}}),
        ("steps=", "Slice", {"s": [0], "e": [9], "a": [1], "t": [2]}),
        ("constant starts: 's' is computed", "Slice", {"s": ..., "e": [9]}),
        ("constant split: 'k' is computed", "Split", {"k": ...}),
    ],
)
def test_what_is_not_served_says_why(why: str, op: str, given: dict[str, Any]) -> None:
    with pytest.raises(Unserved) as raised:
        layer_of(op, **given)
    assert why in str(raised.value)


def test_shapes_that_do_not_fit_are_refused() -> None:
    device = open_device("cpu")
    layer = Layer("layer", "Concat", ("a", "b"), ("y",), {"axis": 1})
    tensors = {name: Tensor(name, "int8") for name in "ab"}
    one = read_layer(layer, Network(("a", "b"), ("y",), (layer,), tensors, {}))
    with pytest.raises(ValueError, match="cannot be joined along axis 1"):
        one.prepare(((1, 4, 2, 2), (1, 4, 2, 3)), device)
    with pytest.raises(ValueError, match="does not have the axis or the part"):
        layer_of("Slice", s=1, e=2, a=7).prepare((FULL,), device)
    with pytest.raises(ValueError, match="widths"):
        layer_of("Slice", s=[5], e=[2], a=[1]).prepare((FULL,), device)


def test_channels_stay_last() -> None:
    device = open_device("cpu")
    x = Value(device, channels_last=device.upload(np.arange(96, dtype=np.uint8).reshape(1, 4, 3, 8)))
    y = layer_of("Slice", s=[2], e=[6], a=[1]).prepare((x.shape,), device)(x)
    assert y.is_channels_last
    np.testing.assert_array_equal(y.on_host, x.on_host[:, 2:6])


@pytest.mark.parametrize("shape", [(7,), (3, 7)])
def test_where_there_are_no_images_the_last_axis_stays(shape: tuple[int, ...]) -> None:
    device = open_device("cpu")
    x = Value(device, there=device.upload(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)))
    y = layer_of("Slice", s=[2], e=[6], a=[len(shape) - 1]).prepare((shape,), device)(x)
    np.testing.assert_array_equal(y.on_host, x.on_host[..., 2:6])


def test_an_output_that_nobody_names_is_left_out() -> None:
    layer = Layer("s", "Split", ("x",), ("y", "", "z"), {"axis": 1})
    network = one_output_each(Network(("x",), ("y", "z"), (layer,), {"x": Tensor("x", "int8")}, {}))
    assert [each.outputs for each in network.layers] == [("y",), ("z",)]
    read: list[Any] = [read_layer(one, network) for one in network.layers]
    ends = [each.cut((1, 9, 2, 2)) for each in read]
    assert [(cut.begin, cut.width) for cut in ends] == [(0, 3), (6, 3)]
    other = Network(("x",), ("y", "z"), (layer,), {"x": Tensor("x", "float32")}, {})
    assert one_output_each(other).layers == (layer,)


def test_a_dropout_has_one_output_each_unless_it_trains() -> None:
    tensors = {"x": Tensor("x", "float32", (3,))}
    for inputs, count in ((("x", "ratio"), 2), (("x", "ratio", "training"), 1)):
        network = Network(("x",), ("y", "mask"), (Layer("d", "Dropout", inputs, ("y", "mask")),), tensors, {})
        assert len(one_output_each(network, ("float32",)).layers) == count
