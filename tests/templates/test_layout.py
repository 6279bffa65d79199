"""NHWC or NCHW, KRSC or KCRS: the same bits, in each layout's shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exactness import expected

import qconv
from qconv import Conv2d, Quantization
from qconv.ops import registry

FULL = Quantization(
    x_type="uint8",
    per_channel=True,
    x_zero_point=True,
    w_zero_point=True,
    y_zero_point=True,
    bias="int32",
)
SHAPES = {
    "pads": {"n": 2, "h": 6, "w": 5, "c": 8, "k": 16, "r": 3, "s": 3, "pad": (2, 0, 1, 1)},
    "stride": {"n": 1, "h": 9, "w": 8, "c": 16, "k": 8, "r": 3, "s": 2, "stride": (2, 3), "dilation": (2, 1)},
    "groups": {"n": 1, "h": 5, "w": 5, "c": 12, "k": 6, "r": 3, "s": 3, "groups": 3, "pad": (1, 1, 1, 1)},
    "depthwise": {"n": 1, "h": 5, "w": 6, "c": 9, "k": 9, "r": 3, "s": 3, "groups": 9, "pad": (1, 1, 1, 1)},
    "residue": {"n": 1, "h": 4, "w": 7, "c": 3, "k": 10, "r": 1, "s": 1},
}


def turned(array: Any, axes: tuple[int, ...]) -> Any:
    return np.ascontiguousarray(array.transpose(axes))


@pytest.mark.turns
@pytest.mark.parametrize("out_type", ["int8", "float32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_layout_gives_the_same_bits(shape: str, out_type: str) -> None:
    q = FULL if out_type == "int8" else Quantization(out_type=out_type, x_zero_point=True, activation="relu")
    problem = Conv2d(**SHAPES[shape], quantization=q)  # type: ignore[arg-type]
    drawn = registry.draw(problem, 5)
    (x, w), want = drawn.arrays, expected(problem, drawn)
    geometry = {name: getattr(problem, name) for name in ("stride", "dilation", "pad", "groups")}
    for layout, xs, wanted in (("nhwc", x, want), ("nchw", turned(x, (0, 3, 1, 2)), turned(want, (0, 3, 1, 2)))):
        default = "krsc" if layout == "nhwc" else "kcrs"
        for w_layout, ws in (("krsc", w), ("kcrs", turned(w, (0, 3, 1, 2)))):
            for given in ({"w_layout": w_layout}, {}) if w_layout == default else ({"w_layout": w_layout},):
                y = qconv.conv2d(
                    xs, ws, layout=layout, out_type=out_type, activation=q.activation, device="cpu",
                    **given, **geometry, **drawn.parameters,
                )  # fmt: skip
                assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
                assert y.tobytes() == wanted.tobytes(), (layout, w_layout)


X, W = np.zeros((1, 8, 4, 5), "int8"), np.zeros((2, 8, 3, 3), "int8")


@pytest.mark.parametrize(
    ("x", "w", "given", "says"),
    [
        (X, W, {"layout": "nhcw"}, r"layout='nhcw' is not one of nhwc, nchw"),
        (X, W, {"layout": "nchw", "w_layout": "ksrc"}, r"w_layout='ksrc' is not one of krsc, kcrs"),
        (X[0], W, {"layout": "nchw"}, r"x must be an array of four dimensions, NCHW; it is ndarray \(8, 4, 5\)"),
        (X, W[0], {"layout": "nchw"}, r"w must be an array of four dimensions, KCRS"),
        (X, W, {"layout": "nchw", "w_layout": "krsc"}, r"w has 3 channels a group, but x has 8"),
        (X.transpose(0, 2, 3, 1), W, {"w_layout": "kcrs"}, r"x is not contiguous in its shape"),
    ],
)
def test_what_does_not_fit_is_refused(x: Any, w: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        qconv.conv2d(x, w, device="cpu", **given)


def test_what_is_no_kernel_of_ours_says_why() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'conv3d'.*two filter axes.*out_type='int32'"):
        _ = qconv.conv3d


def test_the_way_round_conv3d_is_exact() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, 4, 5, 5, 3)).astype("int8")  # NDHWC
    w = rng.integers(-128, 128, (2, 2, 3, 3, 3)).astype("int8")  # KDRSC
    y = sum(
        qconv.conv2d(np.ascontiguousarray(x[0, at : at + 3]), np.ascontiguousarray(w[:, at]), out_type="int32")
        for at in range(2)
    )
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(int), (2, 3, 3), axis=(0, 1, 2))
    assert np.array_equal(y, np.einsum("dhwcors,korsc->dhwk", windows, w.astype(int)))
