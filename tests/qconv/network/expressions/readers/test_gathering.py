"""Elements of tensors in memory at computed indices: the bits are ONNX Runtime's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import assert_as_onnxruntime, by_onnxruntime, drawn, fused, keys_of, model_of_nodes, runs_here
from onnx import helper

from qconv.onnx import Session

X = (2, 5, 3, 4)
DTYPES = ("float32", "float16", "int8", "int64", "bool")
# Axes of Gather and shapes of its indices; axes of a batch of GatherND, and axes of its indices.
GATHERED = [(axis, shape) for axis in (0, 1, 3, -2) for shape in ((), (1,), (3, 2))]
OF_ND = [(0, 1), (0, 2), (0, 4), (1, 1), (1, 3), (2, 1)]


def indices(seed: object, shape: tuple[int, ...], extent: int, dtype: str = "int64") -> Any:
    """Return indices that count from the front and from the end."""
    rng = np.random.default_rng(len(str(seed)))
    return np.asarray(rng.integers(-extent, extent, shape), dtype)


def gathering(op: str, x: Any, given: Any, **attributes: Any) -> tuple[Any, dict[str, Any]]:
    feeds = {"x": x, "i": given}
    return model_of_nodes([helper.make_node(op, ["x", "i"], ["y"], **attributes)], feeds, {}), feeds


@pytest.mark.turns
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("axis", "shape"), GATHERED)
def test_slices_at_computed_indices(axis: int, shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(np.random.default_rng(1), X, dtype)
    for kind in ("int32", "int64"):
        assert_as_onnxruntime(*gathering("Gather", x, indices("slices", shape, X[axis], kind), axis=axis))


@pytest.mark.parametrize("axis", [0, 1, 3, -2])
def test_elements_at_computed_indices(axis: int) -> None:
    x = drawn(np.random.default_rng(2), X)
    shape = tuple(7 if at == axis % 4 else extent for at, extent in enumerate(X))
    for kind in ("int32", "int64"):
        assert_as_onnxruntime(*gathering("GatherElements", x, indices("elements", shape, X[axis], kind), axis=axis))


@pytest.mark.parametrize(("batch", "count"), OF_ND)
def test_slices_at_computed_tuples_of_indices(batch: int, count: int) -> None:
    x = drawn(np.random.default_rng(3), X)
    extents = X[batch : batch + count]
    given = np.stack([indices(extent, (*X[:batch], 6), extent) for extent in extents], -1)
    assert_as_onnxruntime(*gathering("GatherND", x, given, batch_dims=batch))


@pytest.mark.parametrize("last", [False, True])
def test_a_computed_tensor_is_stored_in_the_models_order_first(last: bool) -> None:
    """A kernel before, whose input may have its channels last, makes what places are counted in."""
    rng = np.random.default_rng(4)
    x = drawn(rng, (2, 6, 3, 4))
    feeds = {"x": np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x}
    feeds["i"] = indices("in order", (5,), 6)
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Gather", ["a", "i"], ["g"], axis=1),
        helper.make_node("Neg", ["g"], ["y"]),
    ]
    model = model_of_nodes(nodes, feeds, {})
    assert [len(one.layer.parts) for one in fused(model)[0]] == [1, 2]
    wanted = -np.abs(x)[:, feeds["i"]]
    session = Session(model, "cpu", strict=True)
    np.testing.assert_array_equal(session.run(None, feeds)[0], wanted)


def test_what_is_gathered_has_no_order_but_the_models() -> None:
    """An input with its channels last in memory is put in order, where places are counted in it."""
    x = drawn(np.random.default_rng(5), (2, 6, 3, 4))
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    model, feeds = gathering("Gather", x, indices("order", (3,), 6), axis=1)
    session = Session(model, "cpu", strict=True)
    for given in (x, last, x, last):
        np.testing.assert_array_equal(session.run(None, {**feeds, "x": given})[0], x[:, feeds["i"]])


def test_an_index_outside_reads_an_element_of_the_tensor() -> None:
    x = drawn(np.random.default_rng(6), (4, 3))
    model, feeds = gathering("Gather", x, np.array([9, -9, 2**31, -(2**62)]), axis=0)
    session = Session(model, "cpu", strict=True)
    assert np.isin(session.run(None, feeds)[0], x).all()


def test_a_table_in_the_model_is_read_at_computed_indices() -> None:
    """An embedding is a constant of the kernel."""
    table, words = drawn(np.random.default_rng(7), (50, 8), "float16"), indices("words", (2, 9), 50)
    model = model_of_nodes([helper.make_node("Gather", ["t", "i"], ["y"])], {"i": words}, {"t": table})
    (key,) = keys_of(model)
    assert "float16*400!" in key
    assert_as_onnxruntime(model, {"i": words})


def test_a_position_that_another_kernel_computes_is_an_index() -> None:
    x = drawn(np.random.default_rng(8), (3, 7))
    nodes = [
        helper.make_node("ArgMax", ["x"], ["i"], axis=1),
        helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1),
    ]
    model = model_of_nodes(nodes, {"x": x}, {})
    assert len(keys_of(model)) == 1  # the index is computed where it is used
    np.testing.assert_array_equal(by_onnxruntime(model, {"x": x})[0], x.max(axis=1, keepdims=True))
    assert_as_onnxruntime(model, {"x": x})


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [("Gather", (3, 2), {"axis": 2}), ("GatherElements", (2, 4, 3, 4), {"axis": 1}), ("GatherND", (2, 3, 2), {})],
)
def test_it_runs_here(op: str, shape: tuple[int, ...], attributes: dict[str, int]) -> None:
    x = drawn(np.random.default_rng(9), X, "uint8")
    runs_here(*gathering(op, x, indices("here", shape, 2), **attributes))
