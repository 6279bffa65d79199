"""Resize by whole factors and Pad with a constant match ONNX Runtime bit for bit, next to layers on kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from beside import run_beside
from onnx import TensorProto, helper, numpy_helper
from session_comparison import assert_equal

from qconv.onnx import Session

FULL = (2, 3, 4, 5)
WHERE = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
ROUNDING = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def resized(scales: list[float] | None, sizes: list[int] | None, shape: tuple[int, ...] = FULL, **given: Any) -> bool:
    """Return true if it ran on kernels that repeat pixels; the bits are ONNX Runtime's either way."""
    held = {"s": np.float32(scales or []), **({} if sizes is None else {"n": np.int64(sizes)})}
    node = helper.make_node("Resize", ["x", "", *held], ["y"], mode="nearest", **given)
    return not run_beside(node, {"x": shape}, held, "uint8", bits="onnxruntime").explain().fallen_back


@pytest.mark.turns
@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("where", WHERE)
def test_each_pixel_is_repeated_where_that_is_what_resize_does(where: str, rounding: str) -> None:
    given = {"coordinate_transformation_mode": where, "nearest_mode": rounding}
    here = {factor: resized([1, 1, factor, factor], None, **given) for factor in (1, 2, 3)}
    by_half, floor = where.endswith("half_pixel"), where == "asymmetric"
    prefers = rounding.startswith("round_prefer")
    assert here[1]
    assert here[2] == ((by_half and prefers) or (floor and rounding in ("floor", "round_prefer_floor")))
    assert here[3] == ((by_half and prefers) or (floor and rounding == "floor"))


def test_sizes_and_axes() -> None:
    assert resized(None, [2, 3, 8, 5])
    assert resized(None, [2, 6, 4, 15])
    assert resized([1, 1, 4, 1], None)
    assert resized([2, 1, 1], None, (2, 3, 7))
    assert not resized(None, [2, 3, 7, 5])
    assert not resized([1, 1, 0.5, 1], None)
    assert not resized([1, 1, 1.5, 1], None)


@pytest.mark.parametrize(
    ("held", "given"),
    [
        ({"s": np.float32([]), "n": np.int64([2, 3, 7, 5])}, {}),
        ({"s": np.float32([1, 1, 1.5, 0.5])}, {}),
        ({"s": np.float32([1, 1, 2, 2])}, {"coordinate_transformation_mode": "align_corners", "nearest_mode": "ceil"}),
    ],
)
def test_by_default_pixels_that_are_not_repeated_are_gathered_here(held: Any, given: Any) -> None:
    """The kernels that repeat pixels refuse it before it is theirs."""
    node = helper.make_node("Resize", ["x", "", *held], ["y"], mode="nearest", **given)
    session = run_beside(node, {"x": FULL}, held, "uint8", strict=True)
    assert [problem.op for problem in session.problems][1:] == ["map"]


def test_axes_and_a_policy_as_of_opset_18() -> None:
    held = {"s": np.float32([3, 2])}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", axes=[3, 1])
    assert not run_beside(node, {"x": FULL}, held, "int8", opset=18).explain().fallen_back
    sizes = {"n": np.int64([8, 20])}
    node = helper.make_node(
        "Resize", ["x", "", "", "n"], ["y"], mode="nearest", axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    )
    session = run_beside(node, {"x": FULL}, sizes, "int8", opset=18, bits="onnxruntime")
    assert session.explain().fallen_back["Resize"] == 1
    run_beside(node, {"x": FULL}, sizes, "int8", opset=18, strict=True)


def test_as_of_opset_10() -> None:
    """It had no roi, and one rounding. Max pools did not support bytes."""
    held = {"s": np.float32([1, 1, 3, 3]), "scale": np.float32(1), "zero": np.uint8(0)}
    read = ["x_fed", "scale", "zero", "scale", "zero"]
    nodes = [
        helper.make_node("QLinearLeakyRelu", read, ["x"], domain="com.microsoft", alpha=1.0),
        helper.make_node("Resize", ["x", "s"], ["y"], mode="nearest"),
    ]
    fed = {"x_fed": np.arange(120, dtype="uint8").reshape(FULL)}
    graph = helper.make_graph(
        nodes,
        "resize",
        [helper.make_tensor_value_info("x_fed", TensorProto.UINT8, FULL)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )
    domains = [helper.make_opsetid("", 10), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    session = Session(model, "cpu")
    assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], "")
    assert not session.explain().fallen_back


def test_new_values_are_computed_elsewhere() -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    held = {"s": np.float32([1, 1, 2, 2])}
    assert run_beside(node, {"x": FULL}, held, "uint8", bits="onnxruntime").explain().fallen_back["Resize"] == 1


PADS = ([0, 0, 1, 2, 0, 0, 3, 4], [1, 0, 0, 0, 0, 2, 0, 0], [0, 1, 1, 1, 2, 2, 2, 2], [0] * 8)


@pytest.mark.turns
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("pads", PADS, ids=str)
def test_pad(pads: list[int], dtype: str) -> None:
    held = {"p": np.int64(pads), "c": np.asarray(77, dtype)}
    session = run_beside(helper.make_node("Pad", ["x", *held], ["y"]), {"x": FULL}, held, dtype)
    assert not session.explain().fallen_back
    assert [problem.op for problem in session.problems].count("concat") == sum(
        bool(before or behind) for before, behind in zip(pads[:4], pads[4:], strict=True)
    )


def test_pad_with_nothing_said_of_the_constant_or_along_some_axes() -> None:
    held = {"p": np.int64([0, 0, 1, 0, 0, 0, 0, 1])}
    assert not run_beside(helper.make_node("Pad", ["x", "p"], ["y"]), {"x": FULL}, held, "uint8").explain().fallen_back
    held = {"p": np.int64([1, 2, 3, 0]), "a": np.int64([-1, 2])}
    node = helper.make_node("Pad", ["x", "p", "", "a"], ["y"])
    assert not run_beside(node, {"x": FULL}, held, "uint8", opset=18).explain().fallen_back


@pytest.mark.parametrize(
    ("pads", "mode"),
    [([0, 0, -1, 0, 0, 0, 0, 0], "constant"), (PADS[0], "edge"), ([0, 0, 1, 1, 0, 0, 1, 1], "reflect")],
)
def test_what_pads_elsewhere(pads: list[int], mode: str) -> None:
    """By default, an expression pads instead."""
    node, held = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode), {"p": np.int64(pads)}
    session = run_beside(node, {"x": FULL}, held, "uint8", bits="onnxruntime")
    assert session.explain().fallen_back["Pad"] == 1
    session = run_beside(node, {"x": FULL}, held, "uint8", strict=True)
    assert [problem.op for problem in session.problems][1:] == ["map"]
