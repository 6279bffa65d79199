"""A mean over the pixels between DequantizeLinear and QuantizeLinear: a pool of integers, at most one step away from
floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from one_node import whole_range
from onnx import TensorProto, helper, numpy_helper
from session_comparison import RUNS, assert_equal

from qconv.onnx import Session

SHAPE = (2, 12, 5, 7)


def model(
    op: str = "ReduceMean",
    dtype: str = "uint8",
    shape: tuple[int, ...] = SHAPE,
    axes: list[int] | None = None,
    of_opset: int = 18,
    out_type: str | None = None,
    scales: tuple[float, float] = (0.0625, 0.0625),
    zeros: tuple[int, int] = (3, 5),
    **attributes: Any,
) -> Any:
    """Return a copy of bytes by a MaxPool, whose output is dequantized, averaged and quantized."""
    given = {"x_scale": np.float32(scales[0]), "y_scale": np.float32(scales[1])}
    given |= {"x_zero": np.array(zeros[0], dtype), "y_zero": np.array(zeros[1], out_type or dtype)}
    inputs = ["real"]
    if axes is not None and of_opset < 18:
        attributes["axes"] = axes
    elif axes is not None:
        given["axes"] = np.array(axes, np.int64)
        inputs.append("axes")
    nodes = [
        helper.make_node("MaxPool", ["x"], ["bytes"], kernel_shape=[1] * (len(shape) - 2)),
        helper.make_node("DequantizeLinear", ["bytes", "x_scale", "x_zero"], ["real"]),
        helper.make_node(op, inputs, ["mean"], **attributes),
        helper.make_node("QuantizeLinear", ["mean", "y_scale", "y_zero"], ["y"]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes, "mean", [helper.make_tensor_value_info("x", kind, ["N", *shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in given.items()],
    )  # fmt: skip
    graph.output[0].ClearField("type")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", of_opset)], ir_version=9)


def rows(session: Session) -> dict[str, str]:
    return {row.op: row.runs_on for row in session.explain().rows}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "axes", "keepdims", "of_opset"),
    [
        ("ReduceMean", [2, 3], 1, 17),
        ("ReduceMean", [-1, 2], 0, 17),
        ("ReduceMean", [3, -2], 1, 18),
        ("ReduceMean", [2, 3], 0, 18),
        ("GlobalAveragePool", None, None, 17),
    ],
)
def test_it_is_a_pool_of_integers(op: str, axes: Any, keepdims: int | None, of_opset: int, dtype: str) -> None:
    """The result is that of QLinearGlobalAveragePool, and at most one step from ONNX Runtime's floats."""
    attributes = {} if keepdims is None else {"keepdims": keepdims}
    made = model(op, dtype, axes=axes, of_opset=of_opset, scales=(0.03, 0.021), **attributes)
    session = Session(made, "cpu", strict=True)
    for seed in range(RUNS):
        fed = {"x": whole_range(np.random.default_rng(seed), dtype, SHAPE)}
        (y,), (floats,) = session.run(None, fed), networks.by_ort(made, fed)
        assert (y.dtype, y.shape) == (floats.dtype, floats.shape)
        assert abs(y.astype(int) - floats.astype(int)).max() <= 1
        sums = fed["x"].astype(np.int64).sum((2, 3)) - 3 * 35
        exact = sums / 35 * float(np.float32(0.03)) / float(np.float32(0.021)) + 5
        info = np.iinfo(dtype)
        assert abs(np.clip(exact, info.min, info.max) - y.reshape(sums.shape)).max() <= 0.5 + 1e-4


def test_a_mean_in_the_middle_of_two_steps_goes_to_the_even_one() -> None:
    made = model(axes=[2, 3], shape=(1, 4, 1, 2), zeros=(0, 0))
    x = np.array([[2, 3], [3, 4], [0, 1], [5, 6]], np.uint8).reshape(1, 4, 1, 2)
    (y,) = Session(made, "cpu", strict=True).run(None, {"x": x})
    assert y.reshape(-1).tolist() == [2, 4, 0, 6]


def test_bits_of_onnx_runtime_are_floats() -> None:
    made = model(axes=[2, 3], scales=(0.03, 0.021))
    session = Session(made, "cpu", bits="onnxruntime")
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", SHAPE)}
    assert_equal(session.run(None, fed)[0], networks.by_ort(made, fed)[0], "floats")
    assert rows(session)["ReduceMean"] == "fallback"
    session = Session(made, "cpu")
    session.run(None, fed)
    (row,) = (row for row in session.explain().rows if row.op == "ReduceMean")
    assert row.runs_on == "qconv"
    assert "DequantizeLinear, ReduceMean, QuantizeLinear folded, which may change an output by one step" in row.why


@pytest.mark.parametrize(
    "given",
    [
        {"axes": [1, 2]},
        {"axes": [3]},
        {"axes": None},
        {"axes": [2, 3], "out_type": "int8"},
        {"axes": [2], "shape": (2, 12, 5, 7)},
    ],
)
def test_other_means_stay_in_floats(given: dict[str, Any]) -> None:
    """By default, of expressions: the scales are powers of two, so that a sum in any order is exact, and the mean is
    rounded once."""
    made = model(**given)
    session = Session(made, "cpu", bits="onnxruntime")
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", given.get("shape", SHAPE))}
    wanted = networks.by_ort(made, fed)[0]
    assert_equal(session.run(None, fed)[0], wanted, str(given))
    assert rows(session)["ReduceMean"] == "fallback"
    session = Session(made, "cpu", strict=True)
    assert_equal(session.run(None, fed)[0], wanted, "by default")
    assert [problem.op for problem in session.problems][1:] == ["reduce"]


@pytest.mark.parametrize("floats", ["real", "mean"])
def test_floats_that_others_read_are_computed_too(floats: str) -> None:
    made = model(axes=[2, 3])
    made.graph.output.append(helper.make_tensor_value_info(floats, TensorProto.FLOAT, None))
    fed = {"x": whole_range(np.random.default_rng(0), "uint8", SHAPE)}
    alone = Session(model(axes=[2, 3]), "cpu", strict=True).run(None, fed)[0]
    session = Session(made, "cpu", strict=True)
    y, got = session.run(None, fed)
    assert_equal(got, networks.by_ort(made, fed)[1], floats)
    assert_equal(y, alone, "y")
    assert "global_average_pool" in [problem.op for problem in session.problems]
