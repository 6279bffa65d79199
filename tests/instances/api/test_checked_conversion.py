"""Callers' scales must be finite and positive; those of a network are accepted if other runtimes accept them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from foreign import Foreign

import qconv
from qconv.instances.api import conversion as conversion_api

X, Q = np.ones((2, 3), np.float32), np.ones((2, 3), np.int8)
CALLS: dict[str, Callable[[Any], Any]] = {
    "quantize": lambda scale: qconv.quantize(X, scale),
    "quantize, by name": lambda scale: qconv.quantize(X, scale=scale),
    "quantize by axis": lambda scale: qconv.quantize(X, [1.0, 2.0, scale], axis=1),
    "dequantize": lambda scale: qconv.dequantize(Q, scale),
    "requantize, x": lambda scale: qconv.requantize(Q, scale, 1.0),
    "requantize, y": lambda scale: qconv.requantize(Q, 1.0, y_scale=scale),
}


@pytest.mark.parametrize("scale", [0, 0.0, -1.0, float("nan"), float("inf"), 1e-60, 1e60])
@pytest.mark.parametrize("name", CALLS)
def test_a_scale_is_finite_and_positive(name: str, scale: float) -> None:
    with pytest.raises(ValueError, match=r"scale holds .* as float32; every scale must be finite and positive"):
        CALLS[name](scale)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", ml_dtypes.bfloat16])
def test_it_is_of_any_type(dtype: Any) -> None:
    assert qconv.quantize(X, np.asarray(2, dtype)).dtype == np.int8
    with pytest.raises(ValueError, match="scale holds -2"):
        qconv.quantize(X, np.asarray(-2, dtype))


@pytest.mark.parametrize("kept", [Foreign, lambda array: array.astype(array.dtype.newbyteorder())])
def test_it_is_of_any_library_and_order_of_bytes(kept: Callable[[Any], Any]) -> None:
    assert qconv.quantize(X, kept(np.asarray([0.5], "float32"))).tolist() == [[2] * 3] * 2
    with pytest.raises(ValueError, match="scale holds -2"):
        qconv.quantize(X, kept(np.asarray([-2], "float32")))


def test_a_network_may_have_any() -> None:
    """As in ONNX Runtime, the quotient is negative."""
    assert np.array_equal(conversion_api.quantize(X, -0.5), np.full((2, 3), -2, np.int8))
    assert np.array_equal(conversion_api.quantize(X, 0.0), np.full((2, 3), 127, np.int8))


def test_they_are_the_same_functions_otherwise() -> None:
    assert qconv.quantize.__doc__ == conversion_api.quantize.__doc__
    assert qconv.requantize(Q, 2.0, 1.0, y_zero_point=3).tolist() == [[5] * 3] * 2
