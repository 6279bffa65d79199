"""Concatenation, padding and elements chosen by their place: the results are ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, drawn, evaluated, fused, keys_of, model_of_nodes, one_op, runs_here
from onnx import helper

RNG = np.random.default_rng(51)
TYPES = ("float32", "float16", "int64", "int32", "uint8", "bool")
X = (2, 6, 4, 3)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def joined(axis: int, *arrays: Any) -> tuple[Any, dict[str, Any]]:
    feeds = {f"x{at}": array for at, array in enumerate(arrays)}
    return model_of_nodes([helper.make_node("Concat", list(feeds), ["y"], axis=axis)], feeds, {}), feeds


@pytest.mark.parametrize(
    ("axis", "shapes"),
    [
        (1, [(2, 3, 4), (2, 1, 4), (2, 5, 4)]),
        (-1, [(2, 3, 4), (2, 3, 1)]),
        (0, [(1, 3, 4), (2, 3, 4)]),
        (2, [(2, 3, 4)]),
    ],
)
def test_tensors_are_joined(axis: int, shapes: Any) -> None:
    for dtype in TYPES:
        model, feeds = joined(axis, *(drawn(RNG, shape, dtype) for shape in shapes))
        assert_as_onnxruntime(model, feeds)


def test_computed_tensors_are_joined_in_one_kernel() -> None:
    """No element outside of an input is read, whatever is computed of it, nor an entry behind the end of a table."""
    x = drawn(RNG, (1, 2, 8, 6))
    nodes = [
        helper.make_node("Slice", ["x", "b", "e", "a"], ["right"]),
        helper.make_node("Neg", ["right"], ["turned"]),
        helper.make_node("Gather", ["x", "i"], ["left"], axis=3),
        helper.make_node("Concat", ["turned", "left", "x"], ["y"], axis=-1),
    ]
    model = model_of_nodes(nodes, {"x": x}, {"b": ints(3), "e": ints(99), "a": ints(-1), "i": ints(0, 5, 1)})
    assert_as_onnxruntime(model, {"x": x})
    assert len(keys_of(model)) == 1
    runs_here(model, {"x": x})


@pytest.mark.parametrize("cut", [1, 5, 7])
def test_a_tensor_that_is_cut_and_joined_again_has_one_index(cut: int) -> None:
    """No element is read of which only the other part is used, and none is guarded."""
    x = drawn(RNG, (2, 8, 6))
    nodes = [
        helper.make_node("Slice", ["x", "b", "e", "a"], ["end"]),
        helper.make_node("Slice", ["x", "z", "b", "a"], ["begin"]),
        helper.make_node("Concat", ["end", "begin"], ["y"], axis=1),
    ]
    model = model_of_nodes(nodes, {"x": x}, {"b": ints(cut), "e": ints(8), "a": ints(1), "z": ints(0)})
    assert_as_onnxruntime(model, {"x": x})
    (key,) = keys_of(model)
    assert "guarded" not in key
    assert key.count("x0[") == 1
    nodes[2].input[:] = ["begin", "end"]
    assert_as_onnxruntime(
        model_of_nodes(nodes, {"x": x}, {"b": ints(cut), "e": ints(8), "a": ints(1), "z": ints(0)}), {"x": x}
    )


@pytest.mark.parametrize(("count", "kernels"), [(24, 1), (33, 0)])
def test_as_many_tensors_are_joined_as_a_kernel_has_operands(count: int, kernels: int) -> None:
    model, feeds = joined(1, *(drawn(RNG, (1, 2, 3)) for _ in range(count)))
    assert len(fused(model)[0]) == kernels
    if kernels:
        assert_as_onnxruntime(model, feeds)


def test_single_numbers_are_joined_where_they_belong() -> None:
    """They share an operand, and none is read in the place of another."""
    x = ints(5, 6)
    node = helper.make_node("Concat", ["a", "x", "b", "c"], ["y"], axis=0)
    assert_as_onnxruntime(model_of_nodes([node], {"x": x}, {"a": ints(7), "b": ints(8), "c": ints(-1)}), {"x": x})


def test_what_is_folded_is_in_memory_before_it_is_joined() -> None:
    """Otherwise it would be folded for the elements of the other inputs as well."""
    x = drawn(RNG, (1, 2, 8, 6))
    pool = helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[5, 5], pads=[2] * 4)
    model = model_of_nodes([pool, helper.make_node("Concat", ["x", "p"], ["y"], axis=1)], {"x": x}, {})
    assert_as_onnxruntime(model, {"x": x})
    assert [key.partition(":")[0] for key in keys_of(model)] == ["reduce", "map"]


PADS = ints(0, 1, 2, 0, 1, 0, -1, 3)
# The op, its constants and its attributes.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Pad", (PADS,), {}),
    ("Pad", (PADS, 1), {}),
    ("Pad", (ints(2, 1, -1, 1), None, ints(-2, 3)), {}),
    ("Pad", (ints(0, -6, 0, 0, 0, 1, 0, 0), 1), {}),
    ("Pad", (ints(0, 3, 2, 0, 1, 2, 3, 2),), {"mode": "reflect", "opset": 19}),
    ("Pad", (ints(0, 3, -1, 0, 1, 2, 3, 2),), {"mode": "edge", "opset": 19}),
    ("Pad", (ints(0, 3, -1, 0, 1, 2, 3, 2),), {"mode": "wrap", "opset": 19}),
    ("CenterCropPad", (ints(3, 7, 4, 2),), {}),
    ("CenterCropPad", (ints(2, 3, 7, 6),), {}),
    ("CenterCropPad", (ints(9, 1),), {"axes": [-1, 1]}),
]


@pytest.mark.parametrize(("op", "constants", "attributes"), CASES)
def test_tensors_are_padded(op: str, constants: Any, attributes: Any) -> None:
    for dtype in TYPES:
        x = drawn(RNG, X, dtype)
        held = [np.array(one, dtype) if isinstance(one, int) else one for one in constants]
        assert_as_onnxruntime(one_op(op, x, *held, **attributes), {"x": x})


def test_pads_that_are_attributes() -> None:
    x = drawn(RNG, X)
    assert_as_onnxruntime(one_op("Pad", x, opset=9, pads=[0, 1, 2, 0, 0, 0, 1, 0], value=2.5), {"x": x})


def test_a_computed_value_pads_what_is_computed() -> None:
    x, value = drawn(RNG, X), drawn(RNG, (1,))
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Pad", ["e", "p", "v"], ["y"])]
    model = model_of_nodes(nodes, {"x": x, "v": value}, {"p": PADS})
    (y,) = evaluated(model, {"x": x, "v": value})
    assert y.shape == (3, 7, 5, 6)
    np.testing.assert_array_equal(y[:, 0], np.full((3, 5, 6), value[0]))
    np.testing.assert_allclose(y[:2, 1:, 2:, :3], np.exp(x[:, :, :3]), rtol=1e-6)


def test_each_of_two_pads_has_its_value() -> None:
    x = drawn(RNG, X)
    nodes = [helper.make_node("Pad", ["x", "p", "v"], ["a"]), helper.make_node("Pad", ["a", "p", "w"], ["y"])]
    values = {"v": np.float32(2), "w": np.float32(3)}
    assert_as_onnxruntime(model_of_nodes(nodes, {"x": x}, {"p": PADS, **values}), {"x": x})


@pytest.mark.parametrize("moved", [-2, 0, 1, 9])
@pytest.mark.parametrize("upper", [0, 1])
def test_triangles(moved: int, upper: int) -> None:
    for dtype in ("float32", "int64", "bool"):
        x = drawn(RNG, X, dtype)
        assert_as_onnxruntime(one_op("Trilu", x, np.int64(moved), upper=upper), {"x": x})


@pytest.mark.parametrize(("depth", "axis"), [(4, -1), (4, 0), (1, 1)])
def test_one_hot(depth: int, axis: int) -> None:
    """Indices count from the end if they are negative, and beyond the depth they choose nothing."""
    x = RNG.integers(-5, 5, (3, 4))
    for dtype, values in (("int64", "int64"), ("int64", "float32"), ("float32", "int64")):
        model = one_op("OneHot", x.astype(dtype), np.int64(depth), np.array([-1, 7], values), axis=axis)
        assert_as_onnxruntime(model, {"x": x.astype(dtype)})


@pytest.mark.parametrize(
    ("op", "given", "updates", "attributes"),
    [
        ("ScatterElements", ints(1, 5, -1, 1).reshape(1, 4, 1, 1), (1, 4, 1, 1), {"axis": 1}),
        ("ScatterElements", RNG.integers(-3, 3, (2, 6, 4, 2)), (2, 6, 4, 2), {"axis": 3}),
        ("ScatterND", ints(0, 1, 1, -2, 0, 1).reshape(3, 2), (3, 4, 3), {}),
        ("ScatterND", ints(1, 0, 1).reshape(3, 1, 1), (3, 1, 6, 4, 3), {}),
        ("ScatterND", RNG.integers(0, 2, (5, 4)), (5,), {}),
    ],
)
def test_updates_replace_elements(op: str, given: Any, updates: Any, attributes: Any) -> None:
    for dtype in TYPES:
        feeds = {"x": drawn(RNG, X, dtype), "u": drawn(RNG, updates, dtype)}
        node = helper.make_node(op, ["x", "i", "u"], ["y"], **attributes)
        assert_as_onnxruntime(model_of_nodes([node], feeds, {"i": given}), feeds)


def test_updates_that_are_combined_run_elsewhere() -> None:
    feeds = {"x": drawn(RNG, X), "u": drawn(RNG, (1, 6, 4, 3))}
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    why_not = fused(model_of_nodes([node], feeds, {"i": ints(0).reshape(1, 1)}))[1]
    assert "are combined" in "".join(map(str, why_not.values()))
