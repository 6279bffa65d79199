"""Pools along three axes match ONNX Runtime bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import drawn, model_of, node_of, runs_on, whole_range

from qconv.device import open_device
from qconv.network import Layer, Network, Tensor, Unserved, Value, read_layer
from qconv.tensor_ops import AveragePool, GlobalAveragePool, MaxPool

BYTES = ("int8", "uint8")
AVERAGE = "com.microsoft.QLinearAveragePool"
SHAPE = (2, 5, 6, 7, 5)
WINDOWS: dict[str, dict[str, Any]] = {
    "without overlap": {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]},
    "padded": {"kernel_shape": [3, 3, 3], "strides": [1, 2, 2], "pads": [1, 1, 1, 1, 1, 1]},
    "padded differently": {"kernel_shape": [3, 2, 3], "strides": [2, 3, 2], "pads": [0, 1, 2, 1, 0, 1]},
    "incomplete": {"kernel_shape": [3, 2, 3], "strides": [2, 2, 3], "pads": [1, 0, 0, 0, 1, 2], "ceil_mode": 1},
    "by rule": {"kernel_shape": [3, 2, 3], "strides": [2, 2, 2], "auto_pad": "SAME_UPPER"},
    "strided frames": {"kernel_shape": [1, 2, 2], "strides": [2, 1, 1]},
    "strided pixels": {"kernel_shape": [3, 1, 1], "strides": [1, 2, 2]},
}
# Averages that are one pool of images.
PIXELS = {"kernel_shape": [1, 3, 2], "strides": [1, 2, 2], "pads": [0, 1, 1, 0, 1, 0]}
TIME = {"kernel_shape": [3, 1, 1], "strides": [2, 1, 1], "pads": [1, 0, 0, 1, 0, 0]}
EVERYTHING, ONE = {"kernel_shape": [6, 7, 5]}, {"kernel_shape": [1, 1, 1]}
EVERY_FRAME = {"kernel_shape": [6, 1, 1]}


@pytest.mark.turns
@pytest.mark.parametrize("window", [*WINDOWS.values(), PIXELS, TIME, EVERYTHING, ONE, EVERY_FRAME], ids=str)
def test_the_largest(window: dict[str, Any]) -> None:
    for dtype in BYTES:
        x = whole_range(np.random.default_rng(1), dtype, SHAPE)
        row = runs_on(*node_of("MaxPool", {"x": x}, **window), f"{dtype} {window}")
        assert row.why.startswith("pooling, "), row.why


def test_gaps() -> None:
    x = whole_range(np.random.default_rng(2), "int8", (1, 5, 9, 9, 9))
    row = runs_on(*node_of("MaxPool", {"x": x}, kernel_shape=[2, 3, 2], dilations=[2, 2, 3]), "gaps")
    assert row.why.startswith("pooling, "), row.why


@pytest.mark.turns
@pytest.mark.parametrize(
    ("window", "kernel"),
    [
        (PIXELS, "pooling"),
        (TIME, "pooling"),
        (EVERY_FRAME, "pooling"),
        (ONE, "pooling"),
        (EVERYTHING, "global_pooling"),
        ({"kernel_shape": [2, 2, 2]}, "map"),  # an expression: two pools would round twice
        ({"kernel_shape": [3, 7, 5]}, "reduce"),
        ({"kernel_shape": [1, 7, 5]}, "reduce"),
    ],
    ids=str,
)
def test_averages(window: dict[str, Any], kernel: str) -> None:
    rng = np.random.default_rng(3)
    for dtype in BYTES:
        for count in (0, 1):
            operands = [drawn(rng, dtype, SHAPE)], drawn(rng, dtype, ())
            model, fed = model_of("QLinearAveragePool", *operands, count_include_pad=count, **window)
            row = runs_on(model, fed, f"{dtype} {window}")
            assert row.why.startswith(f"{kernel}, "), row.why


def layer_of(op: str, attributes: dict[str, Any], shape: Any = None) -> Any:
    held = {"x_s": np.float32(0.1), "x_z": np.uint8(3), "y_s": np.float32(0.1), "y_z": np.uint8(4)}
    layer = Layer("layer", op, ("x",) if op == "MaxPool" else ("x", *held), ("y",), attributes)
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", "uint8", shape)}, held))


@pytest.mark.parametrize(
    ("op", "window", "kinds"),
    [
        ("MaxPool", WINDOWS["padded"], [MaxPool, MaxPool]),
        ("MaxPool", PIXELS, [MaxPool]),
        ("MaxPool", TIME, [MaxPool]),
        ("MaxPool", ONE, [MaxPool]),
        (AVERAGE, PIXELS, [AveragePool]),
        (AVERAGE, TIME, [AveragePool]),
        (AVERAGE, EVERYTHING, [GlobalAveragePool]),
    ],
    ids=str,
)
def test_one_pool_where_one_is_enough(op: str, window: dict[str, Any], kinds: list[type]) -> None:
    device = open_device("cpu")
    x = Value(device, host=np.arange(np.prod(SHAPE), dtype=np.int64).astype(np.uint8).reshape(SHAPE))
    prepared = layer_of(op, window, SHAPE).prepare((SHAPE,), device)
    assert [type(problem) for problem in prepared.problems] == kinds
    assert prepared(x).is_channels_last


@pytest.mark.parametrize(
    ("why", "op", "attributes", "shape"),
    [
        ("slides along frames and pixels", AVERAGE, {"kernel_shape": (2, 2, 2)}, None),
        ("slides along frames and pixels", AVERAGE, {"kernel_shape": (2, 7, 5)}, SHAPE),
        ("of max pools only", AVERAGE, {"kernel_shape": (2, 1, 1), "dilations": (2, 1, 1)}, None),
        ("the indices", "MaxPool", {"kernel_shape": (2, 2, 2), "output": 1, "outputs": 2}, None),
        ("a pad must be smaller", "MaxPool", {"kernel_shape": (2, 2, 2), "pads": (0, 2, 0, 0, 0, 0)}, None),
        ("a pad must be smaller", "MaxPool", {"kernel_shape": (2, 2, 2), "pads": (2, 0, 0, 0, 0, 0)}, None),
        ("spans 7 along h", "MaxPool", {"kernel_shape": (7, 1, 1)}, SHAPE),
        ("auto_pad='NEVER'", "MaxPool", {"kernel_shape": (2, 2, 2), "auto_pad": b"NEVER"}, None),
        ("slides along 4 axes", "MaxPool", {"kernel_shape": (2, 2, 2, 2)}, None),
    ],
)
def test_what_is_not_served_says_why(why: str, op: str, attributes: dict[str, Any], shape: Any) -> None:
    with pytest.raises(Unserved) as raised:
        layer_of(op, attributes, shape)
    assert why in str(raised.value)


def test_another_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="slides along three axes"):
        layer_of("MaxPool", {"kernel_shape": (2, 2, 2)}).prepare([(1, 2, 5, 5)], open_device("cpu"))
