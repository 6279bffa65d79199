"""ONNX Runtime's ops of quantized tensors, beside ONNX Runtime: at most one step away where it computes a table or
fixed-point numbers, and exact where a float rounds once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from one_expression import Arrays, computed, evaluated, expected, model_of, network_of
from onnx import helper

from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse

X_SCALE, Y_SCALE = np.float32(0.05), np.float32(0.08)


def whole(dtype: str, *shape: int, seed: int = 1) -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def steps(op: str, arrays: Arrays, dtype: str, constants: Sequence[str] = (), **attributes: Any) -> int:
    """Return the largest difference from ONNX Runtime."""
    model = model_of(f"com.microsoft.{op}", arrays, dtype, **attributes)
    if op == "QLinearSoftmax":  # `model_of` takes that name for the model's own
        model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    want = expected(model, arrays)
    got = computed(f"com.microsoft.{op}", arrays, want, constants, **attributes)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    return int(np.abs(got.astype(int) - want.astype(int)).max())


def numbers(dtype: str) -> dict[str, Any]:
    zeros = whole(dtype, 2, seed=9)
    return {"x_scale": X_SCALE, "x_zero": zeros[0], "y_scale": Y_SCALE, "y_zero": zeros[1]}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("constants", [(), ("x_scale",)])  # with a known scale, exponentials are a table
def test_softmax(dtype: str, axis: int, constants: tuple[str, ...]) -> None:
    arrays = {"x": whole(dtype, 3, 6, 5)} | numbers(dtype)
    arrays |= {"y_scale": np.float32(1 / 256), "y_zero": np.array(np.iinfo(dtype).min, dtype)}
    assert steps("QLinearSoftmax", arrays, dtype, constants, axis=axis) <= 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("y_scale", [1 / 255, 0.0021, 0.003])
def test_softmax_in_whole_steps(dtype: str, y_scale: float) -> None:
    """ONNX Runtime cuts the inverse of the scale. Rounded as it is, the output differs in 1 of 40 to 300 elements."""
    arrays = {"x": whole(dtype, 256, 40)} | numbers(dtype) | {"x_scale": np.float32(0.11)}
    arrays |= {"y_scale": np.float32(y_scale), "y_zero": np.array(np.iinfo(dtype).min, dtype)}
    assert steps("QLinearSoftmax", arrays, dtype) == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_concatenation_with_a_scale_for_each(dtype: str) -> None:
    y = numbers(dtype)
    arrays: dict[str, Any] = {"y_scale": y["y_scale"], "y_zero": y["y_zero"]}
    for at, scale in enumerate((0.05, 0.08, 0.11)):
        arrays |= {f"x{at}": whole(dtype, 2, 3 + at, 4, seed=at), f"s{at}": np.float32(scale)}
        arrays |= {f"z{at}": whole(dtype, seed=20 + at)}
    assert steps("QLinearConcat", arrays, dtype, axis=1) == 0


@pytest.mark.parametrize("zero", [3, 4])
def test_a_concatenation_with_one_scale_for_all_moves_bytes(zero: int) -> None:
    """Only where the zero points are equal, too."""
    arrays: dict[str, Any] = {"y_scale": np.float32(0.05), "y_zero": np.uint8(3)}
    for at in range(2):
        arrays |= {f"x{at}": whole("uint8", 2, 3 + at, 4, seed=at), f"s{at}": np.float32(0.05), f"z{at}": np.uint8(3)}
    arrays["z1"] = np.uint8(zero)
    constants = [name for name in arrays if not name.startswith("x")]
    want = expected(model_of("com.microsoft.QLinearConcat", arrays, "uint8", constants, axis=1), arrays)
    network = network_of("com.microsoft.QLinearConcat", arrays, want, constants, axis=1)
    np.testing.assert_array_equal(evaluated(network, arrays), want)
    (one,) = fuse(network, {})[1].values()
    assert isinstance(one, Expressed)
    assert ("quantize" in one.kernel(one.lasts).problem.key) is (zero == 4)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_choice_between_tensors_with_a_scale_for_each(dtype: str) -> None:
    condition = np.random.default_rng(3).integers(0, 2, (3, 1, 5)).astype(bool)
    arrays: dict[str, Any] = {"condition": condition}
    for at, (scale, shape) in enumerate(((0.05, (4, 5)), (0.11, (1,)))):
        arrays |= {f"x{at}": whole(dtype, *shape, seed=at), f"s{at}": np.float32(scale)}
        arrays |= {f"z{at}": whole(dtype, seed=20 + at)}
    arrays |= {name: numbers(dtype)[name] for name in ("y_scale", "y_zero")}
    assert steps("QLinearWhere", arrays, dtype) == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("includes", [0, 1])
def test_average_pools(dtype: str, includes: int) -> None:
    arrays = {"x": whole(dtype, 2, 3, 7, 6)} | numbers(dtype)
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0], "count_include_pad": includes}
    assert steps("QLinearAveragePool", arrays, dtype, **window) <= 1
    assert steps("QLinearGlobalAveragePool", arrays, dtype) <= 1


def test_a_scale_per_channel_is_refused() -> None:
    arrays = {"x": whole("uint8", 2, 3, 4)} | numbers("uint8") | {"x_scale": np.full(3, X_SCALE)}
    with pytest.raises(AssertionError, match=r"a scale or a zero point has the shape \(3,\)"):
        computed("com.microsoft.QLinearSoftmax", arrays, arrays["x"])
