"""Each activation beside ONNX Runtime, or onnx's reference where it has none, within 2e-6 of 1 or of the number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_expression import computed, evaluated, expected, model_of

from qconv.network import Layer, Network, Tensor

ACTIVATIONS: list[tuple[str, dict[str, Any]]] = [
    ("Celu", {"alpha": 2.0}),
    ("Celu", {}),
    ("Elu", {"alpha": 2.0}),
    ("Elu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("Gelu", {}),
    ("HardSigmoid", {"alpha": 0.5, "beta": 0.6}),
    ("HardSigmoid", {}),
    ("HardSwish", {}),
    ("LeakyRelu", {"alpha": 0.1}),
    ("LeakyRelu", {}),
    ("Mish", {}),
    ("Relu", {}),
    ("Selu", {"alpha": 2.0, "gamma": 3.0}),
    ("Selu", {}),
    ("Shrink", {"lambd": 1.5, "bias": 1.5}),
    ("Shrink", {}),
    ("Softplus", {}),
    ("Softsign", {}),
    ("ThresholdedRelu", {"alpha": 2.0}),
    ("ThresholdedRelu", {}),
    ("com.microsoft.Gelu", {}),
    ("com.microsoft.QuickGelu", {}),
    ("com.microsoft.QuickGelu", {"alpha": 1.0}),
    ("com.microsoft.FastGelu", {}),
]


def agree(got: Any, want: Any) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, 2e-6, 2e-6)


@pytest.mark.parametrize(("op", "attributes"), ACTIVATIONS)
def test_activations(op: str, attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-8, 8, (3, 200)), rng.uniform(-100, 100, (1, 200))]).astype(np.float32)
    x[0, :5] = (0, -0.0, 0.5, 1, -0.5)
    arrays = {"x": x}
    want = expected(model_of(op, arrays, "float32", **attributes), arrays)
    agree(computed(op, arrays, want, **attributes), want)


@pytest.mark.parametrize("op", ["com.microsoft.BiasGelu", "com.microsoft.FastGelu"])
def test_a_bias_is_added_first(op: str) -> None:
    rng = np.random.default_rng(2)
    arrays = {"x": rng.uniform(-4, 4, (2, 5, 7)).astype(np.float32), "bias": rng.uniform(-4, 4, 7).astype(np.float32)}
    want = expected(model_of(op, arrays, "float32"), arrays)
    agree(computed(op, arrays, want), want)


@pytest.mark.parametrize("slope", [(1,), (6, 1, 1), (4,), (2, 6, 3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_prelu_broadcasts_its_slopes(slope: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(3)
    arrays = {
        name: rng.uniform(-50, 50, shape).astype(dtype) for name, shape in (("x", (2, 6, 3, 4)), ("slope", slope))
    }
    want = expected(model_of("PRelu", arrays, dtype), arrays)
    agree(computed("PRelu", arrays, want), want)


def test_swish_has_a_factor_within() -> None:
    x = np.random.default_rng(4).uniform(-8, 8, 300).astype(np.float32)
    for alpha in (1.0, 0.7):
        want = (x / (1 + np.exp(-alpha * x.astype(np.float64)))).astype(np.float32)
        agree(computed("Swish", {"x": x}, want, alpha=alpha), want)


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_relu_and_shrink_of_integers(dtype: str) -> None:
    x = np.random.default_rng(5).integers(-100, 100, 200).astype(dtype)
    np.testing.assert_array_equal(computed("Relu", {"x": x}, x), np.maximum(x, 0))
    shrunk = np.where(x < -9, x + 2, np.where(x > 9, x - 2, 0)).astype(dtype)
    np.testing.assert_array_equal(computed("Shrink", {"x": x}, x, lambd=9.0, bias=2.0), shrunk)


def test_halves_round_once() -> None:
    x = np.random.default_rng(6).uniform(-8, 8, 2000).astype(np.float16)
    wide = x.astype(np.float32)
    for op in ("Mish", "Gelu", "HardSwish"):
        once = computed(op, {"x": wide}, wide).astype(np.float16)
        np.testing.assert_array_equal(computed(op, {"x": x}, x), once)


def test_halves_round_once_in_a_chain() -> None:
    """A half that another kernel's function reads is rounded, though it is never in memory."""
    x = np.random.default_rng(7).uniform(-8, 8, 2000).astype(np.float16)
    first = computed("Mish", {"x": x}, x)
    layers = (Layer("mish", "Mish", ("x",), ("t",)), Layer("scaled", "Mul", ("t", "factor"), ("y",)))
    tensors = {name: Tensor(name, "float16", (2000,)) for name in "xty"} | {"factor": Tensor("factor", "float16", (1,))}
    factor = np.array([1000], np.float16)
    network = Network(("x",), ("y",), layers, tensors, {"factor": factor})
    got = evaluated(network, {"x": x})
    np.testing.assert_array_equal(got, (first.astype(np.float32) * np.float32(1000)).astype(np.float16))
