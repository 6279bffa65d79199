"""Pools in a session match ONNX Runtime bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_node import drawn, model_of, node_of, runs_on, whole_range

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Unserved, Value, read_layer
from qconv.onnx import Session

BYTES = ("int8", "uint8")
# Windows with different pads and strides on every side, incomplete windows at the end, automatic padding, one axis, and
# the whole image.
WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 16, 9, 11), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 5, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [2, 0, 1, 1]}),
    ((1, 5, 9, 12), {"kernel_shape": [3, 4], "strides": [2, 3], "pads": [0, 1, 1, 2], "ceil_mode": 1}),
    ((1, 8, 7, 7), {"kernel_shape": [2, 2]}),
    ((1, 3, 8, 10), {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"}),
    ((1, 3, 8, 10), {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_LOWER"}),
    ((1, 3, 8, 9), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "VALID"}),
    ((2, 4, 19), {"kernel_shape": [4], "strides": [3], "pads": [1, 2]}),
    ((2, 4, 19), {"kernel_shape": [5], "strides": [2], "auto_pad": "SAME_UPPER"}),
    ((2, 4, 7, 5), {"kernel_shape": [7, 5]}),
    ((2, 4, 7), {"kernel_shape": [7]}),
]


# The families of pools: an expression would run on kernels as well.
OF_POOLS = ("pooling", "global_pooling")


@pytest.mark.turns
@pytest.mark.parametrize(("shape", "window"), WINDOWS)
def test_windows(shape: tuple[int, ...], window: dict[str, Any]) -> None:
    rng = np.random.default_rng(len(shape))
    for dtype in BYTES:
        what = f"{dtype} {shape} {window}"
        row = runs_on(*node_of("MaxPool", {"x": whole_range(rng, dtype, shape)}, **window), what)
        assert row.why.startswith(OF_POOLS), row.why
        for count in (0, 1):
            operands = [drawn(rng, dtype, shape)], drawn(rng, dtype, ())
            row = runs_on(*model_of("QLinearAveragePool", *operands, count_include_pad=count, **window), what)
            assert row.why.startswith(OF_POOLS), row.why


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 8, 9, 12), {"kernel_shape": [3, 3], "dilations": [2, 3], "pads": [1, 2, 0, 1], "strides": [1, 2]}),
        ((2, 3, 20), {"kernel_shape": [3], "dilations": [4], "pads": [2, 1]}),
    ],
)
def test_a_max_pool_with_gaps(shape: tuple[int, ...], window: dict[str, Any]) -> None:
    row = runs_on(*node_of("MaxPool", {"x": whole_range(np.random.default_rng(4), "int8", shape)}, **window), "gaps")
    assert row.runs_on == "qconv", row.why


@pytest.mark.parametrize("shape", [(3, 5, 7, 6), (1, 16, 1, 1), (2, 9, 13), (2, 4, 3, 2, 5)])
def test_whole_images(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    for dtype in BYTES:
        operands = [drawn(rng, dtype, shape)], drawn(rng, dtype, ())
        row = runs_on(*model_of("QLinearGlobalAveragePool", *operands), f"{dtype} {shape}")
        assert row.runs_on == "qconv", row.why


BY_RULE = {"auto_pad": "SAME_UPPER"}


@pytest.mark.parametrize(
    ("why", "shape", "window"),
    [
        ("as if there were none", (1, 2, 9, 9), {"kernel_shape": [2, 2], "dilations": [2, 2], **BY_RULE}),
        ("padding is negative", (1, 2, 9, 9), {"kernel_shape": [1, 1], "strides": [3, 3], **BY_RULE}),
    ],
)
def test_what_runs_elsewhere(why: str, shape: tuple[int, ...], window: dict[str, Any]) -> None:
    row = runs_on(*node_of("MaxPool", {"x": np.full(shape, 7, np.uint8)}, **window), why)
    assert row.runs_on == "fallback"
    assert why in row.why


def test_no_images_are_no_work() -> None:
    model, feeds = node_of("MaxPool", {"x": np.zeros((0, 2, 9, 9), np.uint8)}, kernel_shape=[3, 3])
    session = Session(model, "cpu", strict=True)
    for _ in range(3):
        assert session.run(None, feeds)[0].shape == (0, 2, 7, 7)
    assert not session.explain().rows


def test_the_padding_by_rule_is_taken_where_it_is_one() -> None:
    """The same layer, at a size for which ONNX Runtime does not pad."""
    window = {"kernel_shape": [1, 1], "strides": [3, 3], **BY_RULE}
    row = runs_on(*node_of("MaxPool", {"x": whole_range(np.random.default_rng(6), "int8", (1, 2, 7, 7))}, **window), "")
    assert row.runs_on == "qconv", row.why


def layer_of(op: str, attributes: dict[str, Any], outputs: tuple[str, ...] = ("y",), **changed: Any) -> Any:
    """Return the layer read from a pool of tensor `x`, with some of its constants changed."""
    held = {"x_s": np.float32(0.1), "x_z": np.uint8(3), "y_s": np.float32(0.1), "y_z": np.uint8(4)}
    held = {name: value for name, value in (held | changed).items() if value is not ...}
    names = ("x",) if op == "MaxPool" else ("x", "x_s", "x_z", "y_s", "y_z")
    layer = Layer("layer", op, names, outputs, attributes)
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", "uint8")}, held))


AVERAGE, GLOBAL = "com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool"


@pytest.mark.parametrize(
    ("why", "op", "given"),
    [
        ("the indices", "MaxPool", {"attributes": {"kernel_shape": (2, 2), "output": 1, "outputs": 2}}),
        ("channels_last=1", AVERAGE, {"attributes": {"kernel_shape": (2, 2), "channels_last": 1}}),
        ("channels_last=1", GLOBAL, {"attributes": {"channels_last": 1}}),
        ("of max pools only", AVERAGE, {"attributes": {"kernel_shape": (2, 2), "dilations": (1, 2)}}),
        ("a pad must be smaller", AVERAGE, {"attributes": {"kernel_shape": (2, 2), "pads": (2, 0, 0, 0)}}),
        ("constant y_scale: 'y_s' is computed", GLOBAL, {"attributes": {}, "y_s": ...}),
        ("must be finite and positive", GLOBAL, {"attributes": {}, "y_s": np.float32(0)}),
        ("x_scale / y_scale", AVERAGE, {"attributes": {"kernel_shape": (2, 2)}, "y_s": np.float32(1e-30)}),
        ("auto_pad='NEVER'", "MaxPool", {"attributes": {"kernel_shape": (2, 2), "auto_pad": b"NEVER"}}),
    ],
)
def test_what_is_not_served_says_why(why: str, op: str, given: dict[str, Any]) -> None:
    with pytest.raises(Unserved) as raised:
        layer_of(op, **given)
    assert why in str(raised.value)


def test_channels_stay_last() -> None:
    device = open_device("cpu")
    x = Value(device, channels_last=device.upload(np.arange(96, dtype=np.uint8).reshape(1, 4, 3, 8)))
    for op, attributes in (("MaxPool", {"kernel_shape": (2, 2)}), (AVERAGE, {"kernel_shape": (2, 2)}), (GLOBAL, {})):
        y = layer_of(op, attributes).prepare((x.shape,), device)(x)
        assert y.is_channels_last
        assert y.shape == ((1, 8, 1, 1) if op == GLOBAL else (1, 8, 3, 2))
