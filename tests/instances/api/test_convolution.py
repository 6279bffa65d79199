"""`qconv.conv2d` derives the problem from the arrays and the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exactness import expected
from foreign import Foreign
from random_problems import problems

import qconv
from qconv import Conv2d, Quantization
from qconv.ops import registry


def arguments_of(problem: Conv2d) -> dict[str, Any]:
    q = problem.quantization
    return {
        "stride": problem.stride,
        "dilation": problem.dilation,
        "pad": problem.pad,
        "groups": problem.groups,
        "layout": problem.layout,
        "activation": q.activation,
        "out_type": q.out_type,
    }


@pytest.mark.turns
@pytest.mark.parametrize("index", range(12))
def test_it_is_the_oracle(index: int) -> None:
    problem = problems(seed=7, count=12)[index]
    drawn = registry.draw(problem, index)
    x, w, *residual = drawn.arrays
    given = arguments_of(problem) | drawn.parameters | {"residual": residual[0] if residual else None}
    y = qconv.conv2d(x, w, device="cpu", **given)
    assert y.tobytes() == expected(problem, drawn).tobytes()
    out = np.empty_like(y)
    assert qconv.conv2d(x, w, out=out, **given) is out
    assert out.tobytes() == y.tobytes()


def test_numbers_and_lists_will_do() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, 4, 4, 8), "int8")
    w = rng.integers(-128, 128, (4, 3, 3, 8), "int8")
    given = {"x_scale": 0.5, "w_scale": [0.1, 0.2, 0.3, 0.4], "y_scale": 90, "y_zero_point": 3, "bias": [1, -2, 3, -4]}
    y = qconv.conv2d(x, w, pad=1, **given)
    q = Quantization(per_channel=True, y_zero_point=True, bias="int32")
    problem = Conv2d(1, 4, 4, 8, 4, 3, 3, pad=1, quantization=q)
    assert y.tobytes() == expected(problem, registry.Sample((x, w), given)).tobytes()


def test_the_second_call_finds_the_same_kernel(caplog: pytest.LogCaptureFixture) -> None:
    x, w = np.ones((1, 3, 3, 4), "int8"), np.ones((4, 1, 1, 4), "int8")
    qconv.forget()
    with caplog.at_level("INFO", "qconv"):
        for _ in range(3):
            assert (qconv.conv2d(x, w) == 4).all()
    assert len([record for record in caplog.records if "default: the cost model's own best" in record.message]) == 1
    qconv.forget()


X, W = np.zeros((1, 4, 4, 8), "int8"), np.zeros((4, 3, 3, 8), "int8")


@pytest.mark.parametrize(
    ("x", "w", "given", "says"),
    [
        (X[0], W, {}, ["x must be an array of four dimensions, NHWC", "(4, 4, 8)"]),
        (X, W[0], {}, ["w must be an array of four dimensions, KRSC"]),
        (X.tolist(), W, {}, ["x must be an array of four dimensions", "list"]),
        (X.astype("float32"), W, {}, ["x_type='float32' with w_type='int8'", "choose types"]),
        (X, W.astype("int16"), {}, ["w_type='int16'", "int8, uint8"]),
        (X, W[..., :4], {}, ["w has 4 channels a group", "x has 8 channels in groups=1"]),
        (X, W, {"groups": 2}, ["w has 8 channels a group", "c/groups=4"]),
        (X, W, {"groups": 0}, ["groups=0"]),
        (X, W, {"stride": (1, 2, 3)}, ["stride=(1, 2, 3)"]),
        (X, W, {"pad": -1}, ["pad=-1"]),
        (X, W, {"dilation": 3}, ["the filter spans 7 along h", "pad more"]),
        (X, W, {"x_zero_point": 0.5}, ["x_zero_point=0.5"]),
        (X, W, {"x_zero_point": 300}, ["x_zero_point=300", "-128 to 127"]),
        (X, W, {"x_zero_point": None}, ["x_zero_point=None"]),
        (X, W, {"y_zero_point": 3, "out_type": "float32"}, ["y_zero_point=True with out_type='float32'"]),
        (X, W, {"w_scale": [0.5, 0.5]}, ["w_scale has shape (2,)", "4 values"]),
        (X, W, {"x_scale": [0.1, 0.2]}, ["x_scale has shape (2,); it must be one number for all"]),
        (X, W, {"bias": np.zeros(3, "int32")}, ["bias has shape (3,)"]),
        (
            X,
            W,
            {"bias": np.full(4, 2**40)},
            [f"bias holds {2**40}..{2**40}; it must hold int32 integers, -2147483648 to"],
        ),
        (X, W, {"out_type": "int32", "x_scale": 0.5}, ["x_scale=0.5", "no use"]),
        (X, W, {"out_type": np.dtype("int8")}, ["out_type=dtype('int8')", "did you mean 'int8'"]),
        (X, W, {"activation": np.array(["relu", "none"])}, ["activation=array(", "is not one of none, relu"]),
        (X, W, {"activation": "swish"}, ["activation='swish'"]),
        (X, W, {"activation": "leaky_relu"}, ["needs slope"]),
        (X, W, {"low": 0.0, "high": 1.0}, ["low=0.0 was given", "activation='none'"]),
        (X, W, {"out": np.zeros((1, 2, 2, 4), "uint8")}, ["out has type uint8", "takes int8"]),
    ],
)
def test_a_wrong_argument_is_refused(x: Any, w: Any, given: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it says is checked below
        qconv.conv2d(x, w, device="cpu", **given)
    for part in says:
        assert part in str(refused.value)


def test_flags_of_the_arithmetic_in_the_place_of_a_name() -> None:
    mode = qconv.Mode(order="multiply_reciprocal", bias_scaling="real")
    problem = Conv2d(1, 4, 4, 8, 4, 2, 2, quantization=Quantization(bias="float32", mode=mode))
    drawn = registry.draw(problem, 1)
    y = qconv.conv2d(*drawn.arrays, mode=mode, device="cpu", **drawn.parameters)
    assert np.array_equal(y, expected(problem, drawn))


def test_a_bias_of_either_order_of_bytes() -> None:
    for value in (np.arange(4, dtype="int32"), np.arange(4, dtype="float32")):
        want = qconv.conv2d(X, W, bias=value, device="cpu")
        assert np.array_equal(qconv.conv2d(X, W, bias=value.astype(value.dtype.newbyteorder()), device="cpu"), want)


def test_parameters_of_another_library_s_arrays() -> None:
    given = {"bias": np.arange(4, dtype="int32"), "w_scale": np.full(4, 0.5, "float32")}
    for name, value in given.items():
        want = qconv.conv2d(X + 1, W + 1, device="cpu", **{name: value})
        assert np.array_equal(qconv.conv2d(X + 1, W + 1, device="cpu", **{name: Array(value)}), want)


class Array(Foreign):
    """Foreign, with the attributes that every array has."""

    @property
    def shape(self) -> Any:
        return self.array.shape
