"""Folds as tensors of their own: those whose columns are not the last axes, and long ones in parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from one_expression import evaluated

from qconv.network import Layer, Network, Tensor
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.expressions.partial import FEW, LONG
from qconv.op import Sample
from qconv.ops.registry import compute

RNG = np.random.default_rng(17)


def network_of(op: str, x: Any, y_shape: tuple[int, ...], *more: Any, dtype: str = "", **given: Any) -> Network:
    """Return the network of one op of x and of constants."""
    held = {f"c{at}": np.asarray(array) for at, array in enumerate(more)}
    tensors = {name: Tensor(name, str(array.dtype), array.shape) for name, array in (held | {"x": x}).items()}
    tensors["y"] = Tensor("y", dtype or str(x.dtype), y_shape)
    return Network(("x",), ("y",), (Layer("one", op, ("x", *held), ("y",), given),), tensors, held)


def kernels(network: Network) -> list[Any]:
    """Return the kernels' problems, in order."""
    made, served, why_not = fuse(network, {})
    assert not why_not
    every = [served[layer.name] for layer in made.layers]
    assert all(isinstance(one, Expressed) for one in every)
    return [one.kernel(one.lasts).problem for one in every]  # type: ignore[attr-defined]


def shapes(network: Network) -> list[tuple[Any, ...]]:
    """Return the op of each kernel, and the rows and columns of its reduction."""
    return [
        (each.op, each.rows, each.columns) if each.op == "reduce" else (each.op, each.shape)
        for each in kernels(network)
    ]


def whole(shape: tuple[int, ...], dtype: str = "int32") -> Any:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def reals(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 3 + 1).astype(np.float32)


def softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 2])
def test_a_softmax_over_an_axis_that_is_not_last_is_three_kernels(axis: int) -> None:
    x = reals(5, 6, 7, 8)
    network = network_of("Softmax", x, x.shape, axis=axis)
    rows = tuple(extent for at, extent in enumerate(x.shape) if at != axis)
    found = kernels(network)
    assert [each.op for each in found] == ["reduce", "reduce", "map"]
    assert [np.prod(each.rows) for each in found[:2]] == [np.prod(rows)] * 2
    np.testing.assert_allclose(evaluated(network, {"x": x}), softmax(x, axis), 0, 1e-6)


def test_a_softmax_over_an_axis_that_may_be_last_is_one_kernel() -> None:
    """Memory may have the channels last."""
    x = reals(5, 6, 7)
    assert shapes(network_of("Softmax", x, x.shape, axis=-1)) == [("reduce", (30,), (7,))]
    network = network_of("Softmax", x, x.shape, axis=1)
    assert [each.op for each in kernels(network)] == ["reduce"]
    np.testing.assert_allclose(evaluated(network, {"x": x}), softmax(x, 1), 0, 1e-6)


PIXELS = (1, 64, 56, 56)  # 200,704 elements


def test_a_mean_of_one_long_row_is_folded_in_parts() -> None:
    x = reals(*PIXELS)
    network = network_of("ReduceMean", x, (1, 1, 1, 1), np.array([1, 2, 3], np.int64))
    assert shapes(network) == [("reduce", (448,), (448,)), ("reduce", (), (448,)), ("map", ())]
    got = evaluated(network, {"x": x})
    np.testing.assert_allclose(got, x.mean((1, 2, 3), np.float64, keepdims=True), 1e-5)


def test_each_of_few_long_rows_has_parts() -> None:
    x = reals(3, 10_000)
    network = network_of("ReduceSum", x, (3,), np.array([1], np.int64), keepdims=0)
    assert shapes(network)[:2] == [("reduce", (300,), (100,)), ("reduce", (3,), (100,))]
    np.testing.assert_allclose(evaluated(network, {"x": x}), x.sum(1, np.float64), 1e-5)


def test_a_normalization_of_one_long_row_is_folded_in_parts() -> None:
    x = reals(*PIXELS)
    scale, bias = reals(64), reals(64)
    network = network_of("GroupNormalization", x, x.shape, scale, bias, num_groups=1, epsilon=1e-5)
    found = kernels(network)
    assert [each.op for each in found] == ["reduce"] * 4 + ["map"]
    assert all(np.prod(each.columns) == 448 for each in found[:4])
    wide = x.astype(np.float64)
    normal = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    want = normal * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(evaluated(network, {"x": x}), want, 1e-5, 1e-5)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_folds_of_integers_in_parts_are_exact(op: str, dtype: str) -> None:
    x = whole((2, 3, 3 * LONG), dtype) | 1  # a product of even numbers is 0
    fold: Any = {"Max": np.max, "Min": np.min, "Prod": np.prod}.get(op.removeprefix("Reduce"), np.sum)
    with np.errstate(over="ignore"):
        of = {"ReduceSumSquare": x * x, "ReduceL1": np.abs(x)}.get(op, x)
    want = fold(of, axis=(0, 2)) if fold in (np.max, np.min) else fold(of, axis=(0, 2), dtype=dtype)
    network = network_of(op, x, (3,), np.array([0, 2], np.int64), keepdims=0)
    assert [each.op for each in kernels(network)][:2] == ["reduce", "reduce"]
    np.testing.assert_array_equal(evaluated(network, {"x": x}), want)


def test_a_row_is_long_by_its_columns_and_where_there_are_few() -> None:
    for rows, columns, parts in ((1, LONG, 1), (1, LONG + 2, 2), (FEW, LONG + 2, 1), (FEW - 1, LONG + 2, 2)):
        network = network_of(
            "ReduceSum", np.zeros((rows, columns), np.int32), (rows,), np.array([1], np.int64), keepdims=0
        )
        assert [each.op for each in kernels(network)].count("reduce") == parts, (rows, columns)


def test_a_prime_number_of_columns_has_no_parts() -> None:
    x = whole((1, 8209))
    network = network_of("ReduceSum", x, (1,), np.array([1], np.int64), keepdims=0)
    assert shapes(network) == [("reduce", (), (8209,))]
    np.testing.assert_array_equal(evaluated(network, {"x": x}), x.sum(1, np.int32))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_positions_are_never_cut(op: str) -> None:
    x = RNG.integers(-5, 5, (1, 2 * LONG)).astype(np.int32)
    network = network_of(op, x, (1,), dtype="int64", axis=1, keepdims=0)
    assert shapes(network) == [("reduce", (), (2 * LONG,))]
    want = x.argmax(1) if op == "ArgMax" else x.argmin(1)
    np.testing.assert_array_equal(evaluated(network, {"x": x}), want)


def test_several_folds_each_have_parts() -> None:
    """Most, a sum and the output of a softmax."""
    x = reals(2, 3, 2 * LONG)
    network = network_of("Softmax", x, x.shape, axis=-1)
    assert [each.op for each in kernels(network)] == ["reduce"] * 4 + ["map"]
    np.testing.assert_allclose(evaluated(network, {"x": x}), softmax(x, -1), 0, 1e-6)


def test_the_rest_of_a_fold_may_have_its_channels_last() -> None:
    """As a convolution behind it reads them."""
    x = reals(2, 6, 4, 5)
    made, served, _ = fuse(network_of("Softmax", x, x.shape, axis=2), {})
    last = served[made.layers[-1].name]
    assert isinstance(last, Expressed)
    turned = replace(last, wants_last=True)
    plain, wanted = (one.kernel(one.lasts) for one in (last, turned))
    assert (plain.is_last, wanted.is_last) == (False, True)
    assert plain.tensors == wanted.tensors
    operands = Sample(tuple(reals(operand.elements) for operand in plain.problem.operands))
    (y,), (y_last,) = (compute(each.problem, operands) for each in (plain, wanted))
    np.testing.assert_array_equal(np.moveaxis(y_last.reshape(2, 4, 5, 6), -1, 1), y.reshape(x.shape))
