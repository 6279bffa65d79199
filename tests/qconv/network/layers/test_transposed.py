"""A transposed convolution between DequantizeLinear and QuantizeLinear is an integer layer. With scales that are powers
of two, ONNX Runtime's floats are exact, and the bits are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from one_node import whole_range
from onnx import helper, numpy_helper
from session_comparison import RUNS, assert_equal

from qconv.onnx import Session

C, K = 5, 3
EXACT = {"x_scale": 2.0**-4, "w_scale": 2.0**-6, "y_scale": 2.0**-1}


def drawn(seed: int, window: tuple[int, ...], types: tuple[str, str, str], per_channel: bool, **scales: float) -> Any:
    """Return the numbers of a layer: weights and a bias of the whole range, and every zero point."""
    rng = np.random.default_rng(seed)
    x_type, w_type, y_type = types
    count = (K,) if per_channel else ()
    factors = 2.0 ** rng.integers(-1, 2, count) if per_channel else 1.0
    scales = EXACT | scales
    made = {name: np.float32(scale) for name, scale in scales.items()}
    made["w_scale"] = np.asarray(scales["w_scale"] * factors, np.float32)
    made |= {"x_zero": whole_range(rng, x_type, ()), "y_zero": whole_range(rng, y_type, ())}
    made["w_zero"] = whole_range(rng, w_type, count) if w_type == "uint8" else np.zeros(count, w_type)
    made |= {"w": whole_range(rng, w_type, (C, K, *window)), "bias": rng.integers(-9999, 9999, K).astype(np.int32)}
    made["b_scale"] = np.asarray(made["x_scale"] * made["w_scale"], np.float32)
    return made


def model(numbers: Any, x_type: str = "uint8", bias: bool = True, **attributes: Any) -> Any:
    axis, axes = {"axis": 1} if numbers["w_scale"].ndim else {}, numbers["w"].ndim - 2
    nodes = [
        helper.make_node("MaxPool", ["x"], ["bytes"], kernel_shape=[1] * axes),
        helper.make_node("DequantizeLinear", ["bytes", "x_scale", "x_zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_real"], **axis),
        helper.make_node("DequantizeLinear", ["bias", "b_scale"], ["b_real"], axis=0),
        helper.make_node(
            "ConvTranspose", ["x_real", "w_real", *(["b_real"] if bias else [])], ["made"],
            kernel_shape=numbers["w"].shape[2:], **attributes,
        ),
        helper.make_node("QuantizeLinear", ["made", "y_scale", "y_zero"], ["y"]),
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(x_type))
    graph = helper.make_graph(
        nodes if bias else [node for node in nodes if node.output[0] != "b_real"], "transposed",
        [helper.make_tensor_value_info("x", kind, ["N", C, *"DHW"[3 - axes :]])], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in numbers.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


WINDOWS: list[tuple[tuple[int, int], dict[str, Any]]] = [
    ((2, 2), {"strides": [2, 2]}),
    ((4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    ((3, 3), {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
    ((3, 5), {"strides": [1, 3], "pads": [2, 4, 1, 3]}),
    ((1, 1), {}),
    ((5, 2), {"strides": [3, 4], "output_padding": [2, 3]}),
    ((7, 3), {"strides": [2, 1], "pads": [6, 0, 0, 2]}),
    ((3, 2), {"strides": [2, 3], "dilations": [2, 3], "pads": [1, 0, 2, 1]}),
    ((3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((4, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ((3, 3), {"strides": [2, 2], "output_shape": [8, 10]}),
    # More than the filter reaches, at both ends.
    ((2, 2), {"strides": [2, 2], "pads": [4, 0, 2, 6]}),
]
TYPES = [("uint8", "int8", "uint8"), ("int8", "int8", "int8"), ("uint8", "uint8", "int8")]


@pytest.mark.turns
@pytest.mark.parametrize(("window", "attributes"), WINDOWS)
def test_every_geometry(window: tuple[int, int], attributes: dict[str, Any]) -> None:
    for at, types in enumerate(TYPES):
        numbers = drawn(at, window, types, per_channel=at % 2 == 0)
        made = model(numbers, types[0], bias=at != 1, **attributes)
        session = Session(made, "cpu", strict=True)
        for seed, shape in enumerate([(2, C, 4, 6), (1, C, 7, 5)]):
            fed = {"x": whole_range(np.random.default_rng(seed), types[0], shape)}
            assert_equal(session.run(None, fed)[0], networks.by_ort(made, fed)[0], f"{types} {shape}")
        assert session.explain().fallen_back == {}


@pytest.mark.parametrize("groups", [2, 3])
def test_groups(groups: int) -> None:
    numbers = drawn(0, (3, 4), TYPES[0], True)
    numbers |= {"w": whole_range(np.random.default_rng(1), "int8", (2 * groups, K, 3, 4))}
    numbers |= {name: np.tile(numbers[name], groups) for name in ("bias", "b_scale")}
    made = model(numbers, strides=[2, 3], pads=[1, 0, 1, 2], group=groups)
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2 * groups
    session = Session(made, "cpu", strict=True)
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", (2, 2 * groups, 5, 4))}
    assert_equal(session.run(None, fed)[0], networks.by_ort(made, fed)[0], f"{groups} groups")
    assert [problem.op for problem in session.problems][-1] == "conv2d"


def test_one_axis() -> None:
    numbers = drawn(0, (4, 1), TYPES[0], True)
    numbers |= {"w": numbers["w"][..., 0]}
    made = model(numbers, strides=[2], pads=[1, 0])
    session = Session(made, "cpu", strict=True)
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", (2, C, 7))}
    assert_equal(session.run(None, fed)[0], networks.by_ort(made, fed)[0], "one axis")
    assert [problem.op for problem in session.problems][-1] == "conv2d"


VOLUMES: list[tuple[tuple[int, int, int], dict[str, Any]]] = [
    ((2, 2, 2), {"strides": [2, 2, 2]}),
    ((4, 4, 4), {"strides": [2, 2, 2], "pads": [1] * 6}),
    ((3, 2, 2), {"strides": [2, 2, 2], "pads": [1, 0, 0, 0, 0, 0]}),
    ((3, 1, 1), {"strides": [2, 1, 1], "pads": [1, 0, 0, 1, 0, 0], "output_padding": [1, 0, 0]}),
    ((1, 3, 3), {"strides": [1, 2, 2], "pads": [0, 1, 1, 0, 1, 1]}),
    ((3, 2, 3), {"strides": [3, 2, 1], "dilations": [2, 1, 2], "pads": [2, 0, 1, 4, 1, 2]}),
    ((2, 3, 2), {"pads": [0, 1, 0, 1, 0, 1]}),
]


@pytest.mark.turns
@pytest.mark.parametrize(("taps", "attributes"), VOLUMES)
def test_three_axes(taps: tuple[int, int, int], attributes: dict[str, Any]) -> None:
    for at, types in enumerate(TYPES[1:]):
        numbers = drawn(at, taps, types, per_channel=at == 0)
        made = model(numbers, types[0], bias=at == 0, **attributes)
        session = Session(made, "cpu", strict=True)
        for seed, shape in enumerate([(2, C, 3, 4, 3), (1, C, 4, 3, 5)]):
            fed = {"x": whole_range(np.random.default_rng(seed), types[0], shape)}
            assert_equal(session.run(None, fed)[0], networks.by_ort(made, fed)[0], f"{types} {shape}")
        assert "conv2d" in [problem.op for problem in session.problems]
        assert "matmul" not in [problem.op for problem in session.problems]


def test_any_scale_is_at_most_one_step_away() -> None:
    numbers = drawn(3, (4, 4), TYPES[0], True, x_scale=0.013, w_scale=0.0071, y_scale=0.093)
    made = model(numbers, strides=[2, 2], pads=[1, 1, 1, 1])
    session = Session(made, "cpu", strict=True)
    for seed in range(RUNS):
        fed = {"x": whole_range(np.random.default_rng(seed), "uint8", (2, C, 6, 4))}
        (y,), (floats,) = session.run(None, fed), networks.by_ort(made, fed)
        assert abs(y.astype(int) - floats.astype(int)).max() <= 1
    (row,) = (row for row in session.explain().rows if row.op == "ConvTranspose")
    assert "folded, which may change an output by one step" in row.why
    assert_equal(Session(made, "cpu", bits="onnxruntime").run(None, fed)[0], floats, "bits")


def in_floats(made: Any, fed: Any, what: str) -> None:
    """Check that the layer is none of integers, and that the products of its default, which are of reals, are as far
    from ONNX Runtime's as one rounding is."""
    session = Session(made, "cpu", bits="onnxruntime")
    wanted = networks.by_ort(made, fed)[0]
    assert_equal(session.run(None, fed)[0], wanted, what)
    assert session.explain().fallen_back["ConvTranspose"] == 1
    session = Session(made, "cpu", strict=True)
    assert abs(session.run(None, fed)[0].astype(int) - wanted.astype(int)).max() <= 1, what
    assert "matmul" in [problem.op for problem in session.problems]


def test_a_bias_of_another_scale_stays_in_floats() -> None:
    made = model(drawn(0, (3, 3), TYPES[0], False) | {"b_scale": np.float32(0.5)})
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", (1, C, 4, 4))}
    in_floats(made, fed, "bias")


def test_scales_per_input_stay_in_floats() -> None:
    """With as many inputs as outputs, the number of scales does not tell the axis."""
    numbers = drawn(0, (2, 2), TYPES[0], True)
    numbers |= {"w": numbers["w"][:K]}
    made = model(numbers, bias=False, strides=[2, 2])
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = K
    weights = next(node for node in made.graph.node if node.output[0] == "w_real")
    for axis in (0, -4):
        weights.attribute[0].i = axis
        fed = {"x": whole_range(np.random.default_rng(0), "uint8", (1, K, 4, 4))}
        in_floats(made, fed, f"axis {axis}")
