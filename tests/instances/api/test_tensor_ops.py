"""add, mul, unary, apply_table on arrays of any shape match the oracle's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qconv
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.tensor_ops import Add, Binary, Mul

NUMBERS = {"a_scale": 0.03, "b_scale": 0.05, "y_scale": 0.06, "a_zero_point": 3, "b_zero_point": -7, "y_zero_point": 9}
SWAPPED = {{"a": "b", "b": "a", "y": "y"}[name[0]] + name[1:]: value for name, value in NUMBERS.items()}


def whole(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


def oracle(kind: type[Binary], a: Any, b: Any, **spec: Any) -> Any:
    problem = kind.of(a.shape, b.shape, **spec)
    flat = (array.reshape(tensor.shape) for array, tensor in zip((a, b), problem.inputs, strict=True))
    return registry.compute(problem, Sample(tuple(flat), NUMBERS))[0].reshape(a.shape)


def test_a_factor_a_channel_and_image() -> None:
    a, b = whole((2, 5, 3, 16), 1), whole((2, 1, 1, 16), 2)
    assert np.array_equal(qconv.mul(a, b, **NUMBERS), oracle(Mul, a, b))


def test_the_larger_may_be_either_of_them() -> None:
    a, b = whole((2, 5, 3, 16), 1), whole((16,), 2)
    want = oracle(Add, a, b, activation="relu")
    assert np.array_equal(qconv.add(a, b, activation="relu", **NUMBERS), want)
    turned = oracle(Add, a, b, activation="relu", added_first="a")
    assert np.array_equal(qconv.add(b, a, activation="relu", **SWAPPED), turned)


def test_the_output_is_written_where_it_is_asked_for() -> None:
    a, b = whole((4, 40), 1), whole((4, 40), 2)
    want = oracle(Add, a, b)
    assert qconv.add(a, b, out=a, **NUMBERS) is a
    assert np.array_equal(a, want)


@pytest.mark.parametrize(
    ("a", "b", "given", "says"),
    [
        (whole((4, 3), 1), whole((4, 2), 1), {}, "does not broadcast"),
        (whole((4, 1), 1), whole((1, 4), 1), {}, "does not broadcast"),
        (whole((4, 3), 1), whole((4, 3), 1).astype(np.int16), {}, "b_type='int16' is not one of"),
        (whole((4, 3), 1), 3, {}, "b must be an array"),
        (whole((4, 3), 1), whole((4, 3), 1), {"out": whole((3, 4), 1)}, "out has shape"),
        (whole((4, 6), 1)[:, ::2], whole((4, 3), 1), {}, "a is not contiguous"),
        (whole((4, 3), 1), whole((4, 3), 1), {"a_zero_point": 300}, "a_zero_point=300 must be integers"),
    ],
)
def test_what_is_refused(a: Any, b: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        qconv.add(a, b, **given)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_function_of_every_byte(dtype: str) -> None:
    x = np.arange(256, dtype=np.uint8).view(dtype).reshape(2, 128)
    numbers = {"x_scale": 0.05, "x_zero_point": 7, "y_scale": 0.04, "y_zero_point": 3}
    real = 0.05 * (x.astype(np.int32) - 7)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for function, value in (
        ("relu", np.maximum(real, 0)),
        ("sigmoid", 1 / (1 + np.exp(-real))),
        ("tanh", np.tanh(real)),
        (np.square, real**2),
    ):
        want = np.clip(value / 0.04 + 3, low, high)
        got = qconv.unary(x, function, **numbers)
        assert (got.shape, got.dtype) == (x.shape, x.dtype)
        assert np.abs(got - want).max() <= 0.501


def test_a_function_without_a_value() -> None:
    x = whole((40,), 6)
    with np.errstate(all="ignore"):
        y = qconv.unary(x, lambda real: np.log(real), x_scale=0.1, y_scale=0.1)
    assert (y[x < 0] == -128).all()
    assert (y[x > 1] > -128).all()


def test_a_table_is_read_by_bytes_and_may_write_over_its_input() -> None:
    x = whole((3, 5, 7), 4)
    table = np.random.default_rng(5).permutation(256).astype(np.uint8)
    want = table[x.view(np.uint8)]
    got = qconv.apply_table(x, table)
    assert got.dtype == np.uint8
    assert np.array_equal(got, want)
    assert np.array_equal(qconv.apply_table(x, table.view(np.int8), out=x).view(np.uint8), want)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: qconv.unary(x, "sigmod"), "did you mean 'sigmoid'"),
        (lambda x: qconv.unary(x, "leaky_relu"), "needs alpha"),
        (lambda x: qconv.unary(x, "relu", alpha=1.0), "has no alpha"),
        (lambda x: qconv.unary(x, np.sum), "it must work by element"),
        (lambda x: qconv.unary(x, 3), "function=3 must be one of identity, .*leaky_relu, or a function of"),
        (lambda x: qconv.unary(x, "leaky_relu", alpha=[1, 2]), r"alpha=\[1, 2\] must be one number"),
        (lambda x: qconv.unary(x, "leaky_relu", alpha="0.1"), r"alpha='0.1' must be one number"),
        (lambda x: qconv.unary(x, np.square, alpha=0.1), r"alpha=0.1 was given beside a function of yours"),
        (lambda x: qconv.unary(x.astype(np.float32), "relu"), "x_type='float32' is not one of"),
        (lambda x: qconv.unary(x, "relu", y_zero_point=200), "y_zero_point=200 must be integers"),
        (lambda x: qconv.apply_table(x, np.zeros(255, np.int8)), "table has shape"),
        (lambda x: qconv.apply_table(x, np.zeros(256, np.int16)), "out_type='int16' is not one of"),
    ],
)
def test_what_is_refused_of_a_table(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call(whole((4, 3), 1))


def test_pools() -> None:
    x, numbers = whole((2, 8, 8, 16), 7), {"x_scale": 0.1, "x_zero_point": 4, "y_scale": 0.05, "y_zero_point": -3}
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(1, 2))[:, ::2, ::2]
    assert np.array_equal(qconv.max_pool(x, 2, stride=2), windows.max(axis=(-1, -2)))
    for got, elements in (
        (qconv.average_pool(x, (2, 2), stride=2, **numbers), windows),
        (qconv.global_average_pool(x, **numbers), x.transpose(0, 3, 1, 2)[:, np.newaxis, np.newaxis]),
    ):
        real = 0.1 * (elements.astype(np.float64).mean(axis=(-1, -2)) - 4)
        assert got.shape == real.shape
        assert np.abs(got - np.clip(real / 0.05 - 3, -128, 127)).max() <= 0.501


def test_a_window_that_is_the_image_is_a_global_pool() -> None:
    x, numbers = whole((2, 4, 3, 16), 7), {"x_scale": 0.1, "y_scale": 0.05}
    want = qconv.global_average_pool(x, **numbers)
    assert want.shape == (2, 1, 1, 16)
    assert np.array_equal(qconv.average_pool(x, (4, 3), **numbers), want)
    assert np.array_equal(qconv.average_pool(x, (4, 3), stride=2, pad=0, **numbers), want)
    square = whole((2, 4, 4, 16), 7)
    assert np.array_equal(qconv.average_pool(square, np.int64(4)), qconv.global_average_pool(square))
    out = np.empty((2, 1, 1, 16), np.int8)
    assert qconv.global_average_pool(x, out=out, **numbers) is out
    assert np.array_equal(out, want)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: qconv.max_pool(x[0], 2), "x must be an array of four dimensions, NHWC"),
        (lambda x: qconv.max_pool(x, (2, 2, 2)), "kernel=.* must be one integer or two"),
        (lambda x: qconv.max_pool(x, 2, out=np.empty((2, 3, 3, 9), np.int8)), "out has shape"),
        (lambda x: qconv.average_pool(x, 2, x_scale=-1.0), "a scale must be finite and positive"),
        (lambda x: qconv.average_pool(x, 4, strde=2), "average_pool has no 'strde'; it has stride"),
        (lambda x: qconv.average_pool(x, 4, stride=0), "stride=0 must be between 1 and"),
        (lambda x: qconv.max_pool(x, None), "r=None must be an integer"),
        (lambda x: qconv.global_average_pool(x, out_type="int32"), "out_type='int32' is not one of"),
    ],
)
def test_what_is_refused_of_a_pool(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call(whole((2, 4, 4, 3), 1))


def test_where_the_largest_elements_are() -> None:
    x = whole((2, 3, 5, 16), 1) // 64 * 64
    for axis in (0, 1, 2, 3, -1, -2):
        got = qconv.argmax(x, axis)
        assert got.dtype == np.int64
        assert np.array_equal(got, x.argmax(axis))
        last = x.shape[axis] - 1 - np.flip(x, axis).argmax(axis, keepdims=True)
        assert np.array_equal(qconv.argmax(x, axis, keepdims=True, last=True), last)
    assert np.array_equal(qconv.argmax(x.view(np.uint8)), x.view(np.uint8).argmax(-1))
    out = np.empty((2, 3, 5), np.int64)
    assert qconv.argmax(x, out=out) is out
    assert np.array_equal(out, x.argmax(-1))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: qconv.argmax(x, 3), "axis=3 must be between -3 and 2"),
        (lambda x: qconv.argmax(x[0, 0, 0]), r"x has shape \(\) and so no axis"),
        (lambda x: qconv.argmax(x.astype(np.int16)), "x_type='int16' is not one of"),
        (lambda x: qconv.argmax(x, out=np.empty((4, 3), np.int32)), "out has type int32"),
    ],
)
def test_what_argmax_refuses(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call(whole((4, 3, 2), 1))


def test_shuffled_channels() -> None:
    x = whole((2, 3, 5, 12), 4)
    for groups in (1, 2, 3, 12):
        want = x.reshape(2, 3, 5, groups, -1).swapaxes(-1, -2).reshape(x.shape)
        assert np.array_equal(qconv.channel_shuffle(x, groups), want)
    out = np.empty_like(x)
    assert qconv.channel_shuffle(x, 12, out=out) is out
    assert np.array_equal(out, want)
    with pytest.raises(ValueError, match="groups=5 does not divide 12 channels"):
        qconv.channel_shuffle(x, 5)
    with pytest.raises(ValueError, match=r"x has shape \(\) and so no axis"):
        qconv.channel_shuffle(np.int8(3), 1)  # type: ignore[call-overload]


def test_tensors_one_behind_the_other() -> None:
    a, b = whole((2, 3, 5, 16), 1), whole((2, 3, 5, 8), 2)
    assert np.array_equal(qconv.concat([a, b]), np.concatenate([a, b], axis=-1))
    assert np.array_equal(qconv.concat([a, a], axis=1), np.concatenate([a, a], axis=1))
    # Bytes are copied, whatever they represent.
    assert np.array_equal(qconv.concat([a, b], y_scale=3e38), np.concatenate([a, b], axis=-1))
    out = np.empty((2, 3, 5, 24), np.int8)
    zeros = {"x_zero_points": [3, -4], "y_zero_point": -4}
    assert qconv.concat([a, b], x_scales=[0.02, 0.03], y_scale=0.03, out=out, **zeros) is out
    rescaled = qconv.unary(a, "identity", x_scale=0.02, x_zero_point=3, y_scale=0.03, y_zero_point=-4)
    assert np.array_equal(out, np.concatenate([rescaled, b], axis=-1))


def test_what_is_no_list_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="tensors must be a list of arrays, at least one; it is generator"):
        qconv.concat(x for x in [whole((2, 3), 1)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("says", "tensors", "given"),
    [
        ("must be the same but for axis 0", [whole((2, 3), 1), whole((2, 4), 1)], {"axis": 0}),
        (r"x1 has type uint8", [whole((2, 3), 1), whole((2, 4), 1).view(np.uint8)], {}),
        (r"of tensors\[1\]: .* must be finite and positive", [whole((2, 3), 1)] * 2, {"x_scales": [1, 0]}),
        ("axis=4 must be between -2 and 1", [whole((2, 3), 1)] * 2, {"axis": 4}),
        ("axis=None must be an integer", [whole((2, 3), 1)] * 2, {"axis": None}),
        ("axis=1.0 must be an integer", [whole((2, 3), 1)] * 2, {"axis": 1.0}),
        ("tensors must be a list of arrays, at least one; it is none", [], {}),
        ("as many axes as each other", [whole((2, 3), 1), whole((2,), 1)], {"axis": 1}),
        (r"tensors\[0\] has shape \(\) and so no axis", [np.int8(3), np.int8(4)], {}),
        ("x_scales=0.1 must be a list of 2 numbers", [whole((2, 3), 1)] * 2, {"x_scales": 0.1}),
        (r"x_scales=\[0.1\] must be a list of 2 numbers", [whole((2, 3), 1)] * 2, {"x_scales": [0.1]}),
        ("x_zero_points=3 must be a list of 2 numbers", [whole((2, 3), 1)] * 2, {"x_zero_points": 3}),
        ("^y_zero_point=300 must be integers", [whole((2, 3), 1)] * 2, {"y_zero_point": 300}),
        ("^y_scale=-1.0 is -1.0 as float32", [whole((2, 3), 1)] * 2, {"y_scale": -1.0}),
    ],
)
def test_what_cannot_be_joined_is_refused(says: str, tensors: list[Any], given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=says):
        qconv.concat(tensors, **given)
