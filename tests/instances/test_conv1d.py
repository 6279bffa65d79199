"""conv1d is conv2d of images that are one pixel high, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exactness import expected

import qconv
from qconv import Conv2d, Quantization
from qconv.ops import registry

Q = Quantization(per_channel=True, x_zero_point=True, y_zero_point=True, bias="int32", activation="relu")
SHAPES = {
    "plain": {"n": 2, "w": 16, "c": 8, "k": 8, "s": 3},
    "pads": {"n": 1, "w": 13, "c": 5, "k": 7, "s": 4, "pad": (3, 1)},
    "stride": {"n": 3, "w": 20, "c": 4, "k": 6, "s": 3, "stride": 3, "dilation": 2, "pad": 2},
    "groups": {"n": 1, "w": 9, "c": 12, "k": 6, "s": 3, "groups": 3, "pad": 1},
}


def case(shape: str) -> tuple[Conv2d, Any, dict[str, Any]]:
    sizes: dict[str, Any] = dict(SHAPES[shape])
    given = {name: sizes.pop(name) for name in ("stride", "dilation", "pad", "groups") if name in sizes}
    pad = given.get("pad", 0)
    left, right = (pad, pad) if isinstance(pad, int) else pad
    problem = Conv2d(
        h=1, r=1, **sizes, stride=(1, given.get("stride", 1)), dilation=(1, given.get("dilation", 1)),
        pad=(0, left, 0, right), groups=given.get("groups", 1), quantization=Q,
    )  # fmt: skip
    return problem, registry.draw(problem, 3), given


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_oracle_in_every_layout(shape: str) -> None:
    problem, drawn, given = case(shape)
    (x, w), want = (array[:, 0] for array in drawn.arrays), expected(problem, drawn)[:, 0]
    turned = [np.ascontiguousarray(array.transpose(0, 2, 1)) for array in (x, w, want)]
    for layout, xs, wanted in (("nwc", x, want), ("ncw", turned[0], turned[2])):
        for w_layout, ws in (("ksc", w), ("kcs", turned[1])):
            y = qconv.conv1d(
                xs, ws, layout=layout, w_layout=w_layout, activation="relu", device="cpu", **given, **drawn.parameters
            )
            assert (y.shape, y.dtype) == (wanted.shape, wanted.dtype)
            assert y.tobytes() == wanted.tobytes(), (layout, w_layout)


def test_out_is_written_where_it_lies() -> None:
    problem, drawn, given = case("pads")
    x, w = (array[:, 0] for array in drawn.arrays)
    out = np.empty((problem.n, problem.ow, problem.k), "int8")
    returned = qconv.conv1d(x, w, out=out, activation="relu", **given, **drawn.parameters)
    assert returned is out
    assert out.tobytes() == expected(problem, drawn).tobytes()


X, W = np.zeros((1, 9, 4), "int8"), np.zeros((2, 3, 4), "int8")


@pytest.mark.parametrize(
    ("x", "w", "given", "says"),
    [
        (X[0], W, {}, r"x must be an array of three dimensions, NWC; it is ndarray \(9, 4\)"),
        (X, W[0], {}, r"w must be an array of three dimensions, KSC"),
        (X, W, {"layout": "nhwc"}, r"layout='nhwc' is not one of nwc, ncw"),
        (X, W, {"w_layout": "krsc"}, r"w_layout='krsc' is not one of ksc, kcs"),
        (X, W, {"pad": (1, 1, 1, 1)}, r"pad=\(1, 1, 1, 1\) must be one integer or 2 of them"),
        (X, W, {"stride": (1, 2)}, r"stride=\(1, 2\) must be one integer"),
        (X, W, {"pad": 1.5}, r"pad=1.5 must be an integer"),
        (X, W, {"dilation": 9}, r"the filter spans 19 along w"),
        (X[:, ::2], W, {}, r"x is not contiguous"),
    ],
)
def test_what_does_not_fit_is_refused(x: Any, w: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        qconv.conv1d(x, w, device="cpu", **given)
