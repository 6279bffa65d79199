"""Each reduction and normalization beside ONNX Runtime, or onnx's reference where that lacks it: integers are equal,
and floats differ by at most 4e-6 of 1 or the number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_expression import Arrays, computed, expected, model_of

from qconv.expression.reduce import folded
from qconv.network.expressions.readers.reductions import FEW, REDUCTIONS

SHAPE = (3, 6, 4, 5)


def check(op: str, arrays: Arrays, dtype: str = "float32", held: tuple[str, ...] = (), **attributes: Any) -> None:
    want = expected(model_of(op, arrays, dtype, held, **attributes), arrays)
    attributes.pop("opset", None)
    got = computed(op, arrays, want, held, **attributes)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, 4e-6, 4e-6)
    else:
        np.testing.assert_array_equal(got, want)


def reals(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).uniform(0.3, 2, shape).astype(np.float32)


@pytest.mark.parametrize("op", list(REDUCTIONS))
@pytest.mark.parametrize("axes", [(1,), (-1, 1), (0, 2, 3), ()])
def test_reductions_over_axes(op: str, axes: tuple[int, ...]) -> None:
    sign = 1 if op.startswith("ReduceLogSum") and op != "ReduceLogSumExp" else -1
    arrays = {"x": reals(*SHAPE) * np.where(np.arange(5) % 2, sign, 1).astype(np.float32)}
    arrays["axes"] = np.array(axes, np.int64)
    for keeps in (0, 1):
        check(op, arrays, held=("axes",), keepdims=keeps)


@pytest.mark.parametrize("count", [1, 2, 3, FEW, FEW + 1])
@pytest.mark.parametrize("kind", ["Sum", "Prod", "Max", "Min"])
def test_few_elements_are_combined_in_the_order_of_a_fold(kind: str, count: int) -> None:
    x = np.array([1e8, 1.25, -1e8, 3.3, 0.7], np.float32)[:count, None] * np.ones((1, 7), np.float32)
    fold = {"Sum": "sum", "Prod": "product", "Max": "maximum", "Min": "minimum"}[kind]
    want = folded(fold, x.T)
    got = computed(f"Reduce{kind}", {"x": x, "axes": np.array([0], np.int64)}, want, ["axes"], keepdims=0)
    np.testing.assert_array_equal(got, want)


def test_without_axes_some_reduce_nothing() -> None:
    arrays = {"x": reals(*SHAPE), "axes": np.array([], np.int64)}
    check("ReduceSum", arrays, held=("axes",), noop_with_empty_axes=1)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_wrap_and_their_mean_is_truncated(op: str, dtype: str) -> None:
    x = np.random.default_rng(2).integers(-9, 9, SHAPE).astype(dtype)
    x[x == 0] = 2
    fold = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod, "Mean": np.sum}[op.removeprefix("Reduce")]
    want = (
        fold(x, axis=(1, 3), keepdims=True, dtype=dtype)
        if op not in ("ReduceMax", "ReduceMin")
        else fold(x, axis=(1, 3), keepdims=True)
    )
    want = (np.trunc(want / 30) if op == "ReduceMean" else want).astype(dtype)
    got = computed(op, {"x": x, "axes": np.array([1, 3], np.int64)}, want, ["axes"])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keeps", [0, 1])
def test_positions(op: str, keeps: int) -> None:
    for axis in (0, 1, -1):
        check(op, {"x": reals(*SHAPE)}, "int64", axis=axis, keepdims=keeps)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_of_an_axis(op: str, axis: int) -> None:
    x = reals(*SHAPE) * 9 - 9
    x[0, 0, 0, 0] = 80  # an exponential that overflows unless the largest is subtracted
    check(op, {"x": x}, axis=axis)


@pytest.mark.parametrize("axis", [-1, 2, 1])
def test_layer_normalization(axis: int) -> None:
    behind = SHAPE[axis:]
    for bias in (None, reals(*behind, seed=3)):
        arrays = {"x": reals(*SHAPE), "scale": reals(*behind, seed=2), "bias": bias}
        check("LayerNormalization", arrays, axis=axis, epsilon=1e-3)


def test_a_variance_of_a_large_mean_is_exact() -> None:
    arrays = {"x": 4096 + np.random.default_rng(1).integers(-4, 5, (5, 64)).astype(np.float32)}
    arrays["scale"] = np.ones(64, np.float32)
    wide = arrays["x"].astype(np.float64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    got = computed("LayerNormalization", arrays, want.astype(np.float32))
    np.testing.assert_allclose(got, want, 1e-6, 1e-6)


def test_root_mean_square() -> None:
    arrays = {"x": reals(*SHAPE), "scale": reals(5, seed=2)}
    want = arrays["x"] / np.sqrt((arrays["x"].astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-3) * arrays["scale"]
    for op in ("RMSNormalization", "SimplifiedLayerNormalization"):
        got = computed(op, arrays, want.astype(np.float32), axis=-1, epsilon=1e-3)
        np.testing.assert_allclose(got, want, 4e-6, 4e-6)


def test_instances_and_groups() -> None:
    arrays = {"x": reals(*SHAPE), "scale": reals(6, seed=2), "bias": reals(6, seed=3)}
    check("InstanceNormalization", arrays, epsilon=1e-3)
    check("GroupNormalization", arrays, num_groups=3, epsilon=1e-3)
    check("GroupNormalization", arrays, num_groups=1, epsilon=1e-3)


@pytest.mark.parametrize("p", [1, 2])
def test_norms(p: int) -> None:
    for axis in (1, -1):
        check("LpNormalization", {"x": reals(*SHAPE)}, axis=axis, p=p)
    zeros = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(computed("LpNormalization", {"x": zeros}, zeros, p=p), zeros)


@pytest.mark.parametrize("axes", [[0, 2, 3], [2, 3], [1], [-1, 0]])
def test_mean_and_variance(axes: list[int]) -> None:
    x = reals(*SHAPE)
    wide, over = x.astype(np.float64), tuple(axes)
    want = (wide - wide.mean(over, keepdims=True)) / (wide.std(over, keepdims=True) + 1e-9)
    got = computed("MeanVarianceNormalization", {"x": x}, want.astype(np.float32), axes=axes)
    np.testing.assert_allclose(got, want, 4e-6, 4e-6)


def test_halves_are_summed_as_floats() -> None:
    x = np.full((2, 4096), 1.5, np.float16)  # 4096 * 1.5 needs more bits than a half has between the terms
    got = computed("ReduceMean", {"x": x, "axes": np.array([1], np.int64)}, np.zeros((2, 1), np.float16), ["axes"])
    np.testing.assert_array_equal(got, np.full((2, 1), 1.5, np.float16))
