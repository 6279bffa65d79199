"""Sums and products of quantized tensors in a session match ONNX Runtime bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_node import drawn, model_of, node_of, runs_on

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Unserved, Value, read_layer

FULL = (3, 5, 4, 6)
# Equal shapes; numbers; one value per channel, image and channel, pixel, or column; fewer dimensions; extents of 1.
SHAPES = [
    (FULL, FULL), (FULL, (1,)), ((), FULL), (FULL, (1, 5, 1, 1)), ((1, 5, 1, 1), FULL), (FULL, (3, 5, 1, 1)),
    ((3, 5, 1, 1), FULL), ((1, 5, 4, 6), (1, 1, 4, 6)), ((4, 6), FULL), (FULL, (6,)), ((6,), FULL), ((7,), (7,)),
    ((3, 5, 4, 1), (3, 1, 1, 1)), ((3, 1, 1, 1), (3, 5, 4, 1)), ((1, 1), (1, 1)), ((2, 9), (2, 1)), ((2, 1), (2, 9)),
    ((2, 3, 8), (2, 3, 8)), ((), ()),
]  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_two_shapes(op: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(len(SHAPES))
    for dtype in ("int8", "uint8"):
        operands = [drawn(rng, dtype, shape) for shape in shapes]
        row = runs_on(*model_of(op, operands, drawn(rng, dtype, ())), f"{dtype} {shapes}")
        assert row.runs_on == "qconv", row.why


@pytest.mark.parametrize("shapes", [((3, 1), (1, 4)), (FULL, (1, 5, 4, 1))])
def test_what_is_repeated_in_more_than_one_way_runs_elsewhere(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(7)
    operands = [drawn(rng, "uint8", shape) for shape in shapes]
    row = runs_on(*model_of("QLinearAdd", operands, drawn(rng, "uint8", ())), str(shapes))
    assert row.runs_on == "fallback"
    assert f"for inputs of shape {shapes[0]}, {shapes[1]}: b" in row.why
    assert "broadcast" in row.why or "neighbours" in row.why


@pytest.mark.turns
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shapes", [*SHAPES, ((1, 1), (4, 6)), ((4,), (2, 4))])
def test_one_of_the_two_is_constant(op: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(len(SHAPES))
    for kept in "ab":
        arrays: dict[str, Any] = {}
        for name, shape in zip("aby", (*shapes, ()), strict=True):
            x, scale, zero = drawn(rng, "uint8", shape)
            arrays |= {name: x, f"{name}_s": scale, f"{name}_z": zero}
        del arrays["y"]
        row = runs_on(*node_of(op, arrays, kept, domain="com.microsoft"), f"{kept} of {shapes}")
        assert row.runs_on == "qconv", row.why


@pytest.mark.parametrize("shapes", [(FULL, (5, 1, 1)), ((5, 1, 1), FULL), (FULL, (4, 6))])
def test_a_constant_with_fewer_axes(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(5)
    x = [drawn(rng, "int8", shape) for shape in shapes]
    kept = "ab"[shapes.index(FULL)]
    arrays = dict(zip(("a", "a_s", "a_z", "b", "b_s", "b_z"), (*x[0], *x[1]), strict=True))
    model = node_of("QLinearMul", arrays | {"y_s": np.float32(0.3), "y_z": np.int8(7)}, kept, domain="com.microsoft")
    row = runs_on(*model, str(shapes))
    assert row.runs_on == "qconv", row.why


def layer_of(**changed: Any) -> Any:
    """Return the layer read from a sum of tensors `a` and `b`, with some inputs changed."""
    held = {"a_s": np.float32(0.1), "a_z": np.uint8(3), "b_s": np.float32(0.1), "b_z": np.uint8(3)}
    held |= {"y_s": np.float32(0.1), "y_z": np.uint8(4)}
    held = {name: value for name, value in (held | changed).items() if value is not ...}
    names = ("a", "a_s", "a_z", "b", "b_s", "b_z", "y_s", "y_z")
    layer = Layer("layer", "com.microsoft.QLinearAdd", names, ("y",))
    tensors = {name: Tensor(name, "uint8") for name in ("a", "b")}
    return read_layer(layer, Network(("a", "b"), ("y",), (layer,), tensors, held))


@pytest.mark.parametrize(
    ("why", "changed"),
    [
        ("constant a_scale: 'a_s' is computed", {"a_s": ...}),
        ("both of its inputs, 'a' and 'b', are constants", {"a": np.uint8([1]), "b": np.uint8([1])}),
        ("its input 'b' is int32", {"b": np.int32([1])}),
        ("a scale must be finite and positive", {"y_s": np.float32(0)}),
        ("b_scale has 2 values", {"b_s": np.float32([1, 2])}),
        ("a_scale / y_scale", {"y_s": np.float32(1e-30)}),
    ],
)
def test_what_is_not_served_says_why(why: str, changed: dict[str, Any]) -> None:
    with pytest.raises(Unserved, match=why.replace("(", r"\(")):
        layer_of(**changed)


@pytest.mark.parametrize(
    ("shape", "constant", "is_last"),
    [
        ((196, 320), (320,), False),
        ((320, 14, 14), (1, 320, 1, 1), True),
        ((14, 14, 320), (320,), False),
        ((320, 14, 14), (1, 1, 14, 14), False),
    ],
)
@pytest.mark.parametrize("n", [1, 8])
def test_the_order_of_axes_is_that_of_a_batch(
    n: int, shape: tuple[int, ...], constant: tuple[int, ...], is_last: bool
) -> None:
    _, _, channels_last = layer_of(b=np.zeros(constant, np.uint8)).problem([(n, *shape), constant])
    assert channels_last is is_last


def test_equal_shapes_stay_in_the_order_in_which_they_lie() -> None:
    device = open_device("cpu")
    x = device.upload(np.arange(24, dtype=np.uint8).reshape(1, 2, 3, 4))  # one image, 2 by 3 pixels, 4 channels
    last, there = Value(device, channels_last=x), Value(device, there=x)
    for a, b, kept in ((last, last, True), (there, there, False)):
        y = layer_of().prepare((a.shape, b.shape), device)(a, b)
        assert y.is_channels_last is kept
    turned = Value(device, there=device.upload(np.ascontiguousarray(np.asarray(x).transpose(0, 3, 1, 2))))
    both = layer_of().prepare((last.shape, turned.shape), device)(turned, last)
    assert both.is_channels_last
    alike = layer_of().prepare((last.shape, last.shape), device)(last, last)
    np.testing.assert_array_equal(both.on_host, alike.on_host)


def test_the_kernel_begins_with_the_input_with_which_onnxruntime_begins() -> None:
    """The kernel's first input is the larger one: here it is the layer's second."""
    for shapes, first in (((FULL, (6,)), "b"), (((6,), FULL), "a"), (((1, 5, 1, 1), FULL), "b")):
        problem, _, _ = layer_of().problem(shapes)
        assert problem.added_first == first
    # By the shape that the constant has in the model.
    problem, _, _ = layer_of(b=np.full((1, 1), 9, np.uint8)).problem(((2, 3, 1, 1), (1, 1)))
    assert problem.added_first == "a"


@pytest.mark.parametrize("constant", [np.uint8(9), np.uint8([[[[9]]]]), np.arange(4, dtype=np.uint8).reshape(4, 1, 1)])
def test_a_constant_turns_no_tensor_whose_channels_are_last(constant: Any) -> None:
    device = open_device("cpu")
    x = np.arange(24, dtype=np.uint8).reshape(1, 4, 2, 3)
    last = Value(device, channels_last=device.upload(np.ascontiguousarray(x.transpose(0, 2, 3, 1))))
    for operand in "ab":
        layer = layer_of(**{operand: constant})
        assert layer.inputs == ({"a": "b", "b": "a"}[operand],)
        one = layer.prepare((x.shape,), device)
        y = one(last)
        assert y.is_channels_last
        np.testing.assert_array_equal(y.on_host, one(Value(device, host=x)).on_host)
