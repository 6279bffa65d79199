"""`qconv.conv2d` and its relatives with arrays of floats: the types of results, and sums beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import qconv
from qconv.dtypes import ELEMENT_TYPES

RNG = np.random.default_rng(5)
X, W = RNG.standard_normal((2, 7, 6, 24), np.float32), RNG.standard_normal((16, 3, 3, 24), np.float32) / 16
BIAS = RNG.standard_normal(16).astype(np.float32)


def real(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("nhwcrs,krsc->nhwk", windows, w.astype(np.float64))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_outputs_are_of_the_input_and_near_the_real_sum(name: str) -> None:
    """The bound is that of a sum in float32 of this length, and of one rounding to the output."""
    kind = ELEMENT_TYPES[name].numpy
    x, w = X.astype(kind), W.astype(kind)
    want, magnitudes = real(x, w) + BIAS, real(np.abs(x), np.abs(w)) + np.abs(BIAS)
    y = qconv.conv2d(x, w, pad=1, bias=BIAS, out_type="float32")
    assert (np.abs(y - want) <= 216 * 2.0**-24 * magnitudes).all()
    narrow = qconv.conv2d(x, w, pad=1, bias=BIAS)
    assert narrow.dtype == kind
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float8_e4m3fn": 4}[name]
    most = ELEMENT_TYPES[name].largest_finite
    near = np.clip(y.astype(np.float64), -most, most)
    assert (np.abs(narrow.astype(np.float64) - near) <= 2.0**-digits * np.maximum(np.abs(near), 2.0**-6)).all()


def test_tfloat32_ignores_the_lowest_bits() -> None:
    low = RNG.integers(0, 2**13, X.shape, np.uint32)
    others = ((X.view(np.uint32) & np.uint32(0xFFFFE000)) | low).view(np.float32)
    y = qconv.conv2d(X, W, pad=1, products="tfloat32")
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, qconv.conv2d(others, W, pad=1, products="tfloat32"))
    assert (y != qconv.conv2d(X, W, pad=1)).any()
    kept = ELEMENT_TYPES["tfloat32"].multiplied
    magnitudes = real(np.abs(X), np.abs(W))
    assert (np.abs(y - real(kept(X), kept(W))) <= 216 * 2.0**-24 * magnitudes).all()


@pytest.mark.parametrize(("x", "products"), [(X.astype(np.float16), "tfloat32"), (X, "float32"), (X, "tf32")])
def test_other_products_are_refused(x: np.ndarray, products: str) -> None:
    with pytest.raises(ValueError, match=f"products='{products}' with x of {x.dtype}: float32 may be multiplied as"):
        qconv.conv2d(x, W.astype(x.dtype), pad=1, products=products)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_a_depthwise_sum_is_near_the_real_one(name: str) -> None:
    """Nine products are added in float32, each rounded once."""
    kind = ELEMENT_TYPES[name].numpy
    x, w = X.astype(kind), RNG.standard_normal((24, 3, 3, 1), np.float32).astype(kind)
    diagonal = np.zeros((24, 3, 3, 24), kind)
    diagonal[range(24), :, :, range(24)] = w[..., 0]
    want, magnitudes = real(x, diagonal), real(np.abs(x), np.abs(diagonal))
    y = qconv.conv2d(x, w, pad=1, groups=24, out_type="float32")
    assert (np.abs(y - want) <= 9 * 2.0**-24 * magnitudes).all()


def test_bytes_still_give_bytes() -> None:
    assert qconv.conv2d(np.ones((1, 2, 2, 4), np.int8), np.ones((4, 1, 1, 4), np.int8)).dtype == np.int8


def test_a_transposed_convolution_and_a_chain_of_halves() -> None:
    x = X.astype(np.float16)
    y = qconv.conv_transpose2d(x, RNG.standard_normal((24, 2, 2, 8)).astype(np.float16).transpose(0, 3, 1, 2), stride=2)
    assert (y.dtype, y.shape) == (np.float16, (2, 14, 12, 8))
    first, second = (RNG.standard_normal(s).astype(np.float16) / 4 for s in ((16, 1, 1, 24), (8, 1, 1, 16)))
    z = qconv.conv2d_conv2d(x, first, second, first={"activation": "relu"})
    assert (z.dtype, z.shape) == (np.float16, (2, 7, 6, 8))
    unfused = qconv.conv2d(qconv.conv2d(x, first, activation="relu"), second)
    assert np.abs(z.astype(np.float32) - unfused.astype(np.float32)).max() <= 2.0**-8 * np.abs(unfused).max()
