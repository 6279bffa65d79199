"""A normalization with constant statistics between DequantizeLinear and QuantizeLinear is a layer of integers, at most
one step away from floats."""

from __future__ import annotations

import warnings
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

C = 8
TYPES = [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")]


def statistics(seed: int) -> dict[str, Any]:
    """Draw factors of both signs and of many sizes, one of them zero, and shifts that are larger than their product
    with any input."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.2, 2, C) * rng.choice([-1, 1], C)
    scale[0], scale[1] = 0, 1e-12
    shift = rng.uniform(-3, 3, C)
    shift[2] = 0
    given = {"scale": scale, "shift": shift, "mean": rng.uniform(-2, 2, C), "variance": rng.uniform(0.1, 3, C)}
    return {name: array.astype(np.float32) for name, array in given.items()}


def model(given: dict[str, Any], types: tuple[str, str], rank: int = 4, **attributes: Any) -> Any:
    held = given | {"x_scale": np.float32(0.031), "y_scale": np.float32(0.047)}
    held |= {"x_zero": np.array(7, types[0]), "y_zero": np.array(-9 if types[1] == "int8" else 90, types[1])}
    names = ("scale", "shift", "mean", "variance")
    nodes = [
        helper.make_node("MaxPool", ["x"], ["bytes"], kernel_shape=[1] * (rank - 2)),
        helper.make_node("DequantizeLinear", ["bytes", "x_scale", "x_zero"], ["real"]),
        helper.make_node("BatchNormalization", ["real", *names], ["made"], **attributes),
        helper.make_node("QuantizeLinear", ["made", "y_scale", "y_zero"], ["y"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(types[0]))
    graph = helper.make_graph(
        nodes, "normalized", [helper.make_tensor_value_info("x", kind, ["N", C, *("A", "B")[: rank - 2]])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("types", "rank"), [(TYPES[0], 4), (TYPES[1], 4), (TYPES[2], 3)])
def test_it_is_at_most_one_step_from_floats(types: tuple[str, str], rank: int) -> None:
    for seed in range(RUNS):
        made = model(statistics(seed), types, rank, **({"epsilon": 0.01} if seed else {}))
        session = Session(made, "cpu", strict=True)
        fed = {"x": whole_range(np.random.default_rng(seed), types[0], (2, C, 9, 11)[:rank])}
        (y,), (floats,) = session.run(None, fed), networks.by_ort(made, fed)
        assert (y.dtype, y.shape) == (floats.dtype, floats.shape)
        different = abs(y.astype(int) - floats.astype(int))
        assert different.max() <= 1
        assert (different > 0).mean() < 0.01
    (row,) = (row for row in session.explain().rows if row.op == "BatchNormalization")
    assert "folded, which may change an output by one step" in row.why


@pytest.mark.parametrize("zero", [None, 3])
def test_its_scale_may_be_quantized(zero: int | None) -> None:
    """quantize_static does so in the format QDQ."""
    given = statistics(0)
    given["scale"] = np.random.default_rng(0).integers(-128, 128, C).astype(np.int8)
    made = model(given, TYPES[0])
    names = ["scale", "step", *([] if zero is None else ["zero"])]
    made.graph.node.insert(0, helper.make_node("DequantizeLinear", names, ["scale_real"]))
    next(node for node in made.graph.node if node.op_type == "BatchNormalization").input[1] = "scale_real"
    for name, array in (("step", np.float32(0.013)), ("zero", np.int8(zero or 0))):
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    fed = {"x": whole_range(np.random.default_rng(1), "uint8", (2, C, 9, 11))}
    (y,), (floats,) = Session(made, "cpu", strict=True).run(None, fed), networks.by_ort(made, fed)
    different = abs(y.astype(int) - floats.astype(int))
    assert different.max() <= 1
    assert (different > 0).mean() < 0.01


def test_channels_that_do_not_depend_on_the_input() -> None:
    given = statistics(0)
    made = model(given, TYPES[0])
    x = whole_range(np.random.default_rng(0), "uint8", (1, C, 16, 16))
    (y,) = Session(made, "cpu", strict=True).run(None, {"x": x})
    assert (y[:, :2] == networks.by_ort(made, {"x": x})[0][:, :2]).all()
    assert len(np.unique(y[:, 0])) == len(np.unique(y[:, 1])) == 1
    zeros = {name: np.zeros(C, np.float32) for name in ("scale", "shift", "mean")} | {"variance": given["variance"]}
    (y,) = Session(model(zeros, TYPES[0]), "cpu", strict=True).run(None, {"x": x})
    assert (y == 90).all()


def test_factors_that_are_not_finite_stay_in_floats() -> None:
    made = model(statistics(0) | {"variance": np.full(C, -1, np.float32)}, TYPES[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = Session(made, "cpu")
    assert session.explain().fallen_back["BatchNormalization"] == 1
    made = model(statistics(0), TYPES[0])
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", (1, C, 3, 3))}
    assert_equal(Session(made, "cpu", bits="onnxruntime").run(None, fed)[0], networks.by_ort(made, fed)[0], "bits")
