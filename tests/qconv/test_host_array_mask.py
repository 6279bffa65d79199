"""A masked array is refused by its name, wherever arrays are accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_node import drawn, model_of

import qconv
from qconv import Conv2d, Quantization
from qconv.host_array import check_unmasked
from qconv.onnx import Session

RNG = np.random.default_rng(0)
X, W = RNG.integers(-128, 128, (1, 4, 4, 8), np.int8), RNG.integers(-128, 128, (8, 3, 3, 8), np.int8)
REAL, BIAS, SCALES = RNG.random((4, 8), np.float32), np.arange(8, dtype=np.int32), np.full(8, 0.5, np.float32)
TABLE = np.arange(256, dtype=np.int16).astype(np.int8)
SCALED = {"x_scale": 0.1, "y_scale": 0.2}


def masked(array: Any, count: int = 1) -> Any:
    mask = np.zeros(array.shape, bool)
    mask.flat[:count] = True
    return np.ma.MaskedArray(array, mask)


def session(array: Any) -> Any:
    model, feeds = model_of("QLinearAdd", [drawn(RNG, "uint8", (1, 8))] * 2, drawn(RNG, "uint8", (1, 8)))
    name = next(iter(feeds))
    return Session(model, "cpu").run(None, {**feeds, name: array(feeds[name])})


def convolution(array: Any, **parameters: Any) -> Any:
    return qconv.conv2d(X, W, device="cpu", **{name: array(value) for name, value in parameters.items()}, **SCALED)


CALLS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "x of a convolution": ("x", lambda array: qconv.conv2d(array(X), W, device="cpu")),
    "its weights": ("w", lambda array: qconv.conv2d(X, array(W), device="cpu")),
    "weights in another order": (
        "w",
        lambda array: qconv.conv2d(X, array(W.transpose(0, 3, 1, 2).copy()), w_layout="kcrs", device="cpu"),
    ),
    "weights that are packed": (
        "w",
        lambda array: qconv.lookup(Conv2d(1, 4, 4, 8, 8, 3, 3, quantization=Quantization()), "cpu").pack(array(W)),
    ),
    "its bias": ("bias", lambda array: convolution(array, bias=BIAS)),
    "its scales": ("w_scale", lambda array: convolution(array, w_scale=SCALES)),
    "its output": ("out", lambda array: qconv.conv2d(X, W, device="cpu", out=array(np.zeros((1, 2, 2, 8), np.int8)))),
    "an image without a height": (
        "x",
        lambda array: qconv.conv1d(array(X[:, 0].copy()), W[:, 0].copy(), device="cpu"),
    ),
    "real numbers": ("x", lambda array: qconv.quantize(array(REAL), 0.5, device="cpu")),
    "the scale of a conversion": ("scale", lambda array: qconv.quantize(REAL, array(SCALES), axis=1, device="cpu")),
    "numbers to choose by": ("x", lambda array: qconv.choose_qparams(array(REAL), device="cpu")),
    "what is added": ("b", lambda array: qconv.add(X, array(X), device="cpu", a_scale=1, b_scale=1, y_scale=2)),
    "what is pooled": ("x", lambda array: qconv.max_pool(array(X), 2, device="cpu")),
    "a table": ("table", lambda array: qconv.apply_table(X, array(TABLE), device="cpu")),
    "one of several": (r"tensors\[1\]", lambda array: qconv.concat([X, array(X)], axis=3, device="cpu")),
    "an input of a network": ("the input", session),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_masked_array_is_refused_wherever_it_is_given(name: str) -> None:
    says, call = CALLS[name]
    with pytest.raises(ValueError, match=rf"^{says}.* masks 1 of its \d+ elements, .*: give array\.filled\(value\)"):
        call(masked)
    call(lambda array: masked(array, 0))


def test_how_many_are_masked_is_said() -> None:
    with pytest.raises(ValueError, match=r"^scale masks 3 of its 32 elements"):
        check_unmasked("scale", masked(REAL, 3))
    for unmasked in (REAL, masked(REAL, 0), np.ma.MaskedArray(REAL), 3, [1.0], None):
        check_unmasked("scale", unmasked)
