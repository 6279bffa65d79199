"""add, mul: arrays of any shape, the bits of the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qconv
from qconv import reference
from qconv.sample import Sample
from qconv.tensor_ops import Add, Binary, Mul

NUMBERS = {"a_scale": 0.03, "b_scale": 0.05, "y_scale": 0.06, "a_zero_point": 3, "b_zero_point": -7, "y_zero_point": 9}
SWAPPED = {{"a": "b", "b": "a", "y": "y"}[name[0]] + name[1:]: value for name, value in NUMBERS.items()}


def whole(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


def oracle(kind: type[Binary], a: Any, b: Any, **spec: Any) -> Any:
    problem = kind.of(a.shape, b.shape, **spec)
    flat = (array.reshape(tensor.shape) for array, tensor in zip((a, b), problem.inputs, strict=True))
    return reference.compute(problem, Sample(tuple(flat), NUMBERS))[0].reshape(a.shape)


def test_a_factor_a_channel_and_image() -> None:
    a, b = whole((2, 5, 3, 16), 1), whole((2, 1, 1, 16), 2)
    assert np.array_equal(qconv.mul(a, b, **NUMBERS), oracle(Mul, a, b))


def test_the_larger_may_be_either_of_them() -> None:
    a, b = whole((2, 5, 3, 16), 1), whole((16,), 2)
    want = oracle(Add, a, b, activation="relu")
    assert np.array_equal(qconv.add(a, b, activation="relu", **NUMBERS), want)
    assert np.array_equal(qconv.add(b, a, activation="relu", **SWAPPED), want)


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
