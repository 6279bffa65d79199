"""The further outputs of normalizations, and the last of equals."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_expression import computed


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization_has_means_and_inverse_deviations(axis: int) -> None:
    rng = np.random.default_rng(1)
    arrays = {"x": rng.standard_normal((3, 4, 5)).astype(np.float32), "scale": np.ones((4, 5)[axis:], np.float32)}
    axes = tuple(range(axis % 3, 3))
    wide = arrays["x"].astype(np.float64)
    means, variances = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    for output, want in ((1, means), (2, 1 / np.sqrt(variances + 1e-3))):
        like = want.astype(np.float32)
        got = computed("LayerNormalization", arrays, like, axis=axis, epsilon=1e-3, output=output)
        np.testing.assert_allclose(got, like, 1e-6, 1e-6)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_last_of_equals(op: str, axis: int) -> None:
    x = np.random.default_rng(2).integers(0, 3, (4, 6, 5)).astype(np.float32)
    first = {"ArgMax": np.argmax, "ArgMin": np.argmin}[op]
    for is_last in (0, 1):
        seen = np.flip(x, axis) if is_last else x
        want = first(seen, axis, keepdims=True).astype(np.int64)
        want = x.shape[axis] - 1 - want if is_last else want
        np.testing.assert_array_equal(computed(op, {"x": x}, want, axis=axis, select_last_index=is_last), want)


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("ReduceSum", 0),
        ("ReduceProd", 1),
        ("ReduceMax", -np.inf),
        ("ReduceMin", np.inf),
        ("ReduceL2", 0),
        ("ReduceLogSum", -np.inf),
    ],
)
def test_reductions_of_nothing(op: str, value: float) -> None:
    arrays = {"x": np.zeros((2, 0, 3), np.float32), "axes": np.array([1], np.int64)}
    want = np.full((2, 1, 3), value, np.float32)
    np.testing.assert_array_equal(computed(op, arrays, want, ["axes"]), want)


def test_no_kernel_reads_a_tensor_without_elements() -> None:
    whole = {"x": np.zeros((2, 0), np.int32), "axes": np.array([1], np.int64)}
    with pytest.raises(AssertionError, match="integers have no infinity"):
        computed("ReduceMax", whole, np.zeros((2, 1), np.int32), ["axes"])
    x = np.zeros((2, 0), np.float32)
    with pytest.raises(AssertionError, match="'x' has no elements"):
        computed("ArgMax", {"x": x}, np.zeros((2, 1), np.int64), axis=1)
