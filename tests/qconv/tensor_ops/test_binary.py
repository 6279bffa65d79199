"""Add and mul as problems: keys, broadcasting of the second tensor, refusals, the random data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_tensor_ops import binary_problems

from qconv import parse
from qconv.ops import registry
from qconv.sampling.operands import Variety
from qconv.tensor_ops import Add, Mul
from qconv.tensor_ops.binary import View, begins_with_first, view_of

FULL = (3, 5, 4, 6)


def test_the_key_says_sizes_and_types_and_what_differs() -> None:
    assert str(Add(1, 1, 9)) == "add:outer=1:repeat=1:inner=9:a_type=int8:b_type=int8:out_type=int8"
    relu = Mul(2, 3, 4, b_type="uint8", activation="relu")
    assert str(relu) == "mul:outer=2:repeat=3:inner=4:a_type=int8:b_type=uint8:out_type=int8:activation=relu"
    assert parse(str(relu)) == relu
    assert parse("add:inner=3:repeat=2:outer=1") == Add(1, 2, 3)
    for problem in binary_problems(4, 40):
        assert parse(str(problem)) == problem


def test_a_tensor_of_the_same_shape_has_one_key() -> None:
    assert Add(4, 1, 6) == Add(1, 1, 24) == Add.of((4, 6), (4, 6))
    assert Add(4, 1, 6).io_bytes == 3 * 24
    assert Mul(4, 2, 6).io_bytes == 2 * 48 + 24


@pytest.mark.parametrize(
    ("a", "b", "view"),
    [
        ((2, 7, 5, 8), (2, 7, 5, 8), View(1, 1, 560)),
        ((2, 7, 5, 8), (8,), View(1, 70, 8)),
        ((2, 7, 5, 8), (1, 1, 1, 8), View(1, 70, 8)),
        ((2, 7, 5, 8), (2, 1, 1, 8), View(2, 35, 8)),
        ((2, 7, 5, 8), (2, 1, 1, 1), View(2, 280, 1)),
        ((2, 7, 5, 8), (7, 5, 8), View(1, 2, 280)),
        ((2, 7, 5, 8), (), View(1, 560, 1)),
        ((1, 8, 3, 3), (1, 8, 1, 1), View(8, 9, 1)),
        ((1, 1), (1, 1), View(1, 1, 1)),
        ((), (), View(1, 1, 1)),
    ],
)
def test_how_it_is_broadcast(a: tuple[int, ...], b: tuple[int, ...], view: View) -> None:
    assert view_of(a, b) == view
    whole = np.arange(np.prod(b, dtype=int)).reshape(b)
    seen = np.broadcast_to(whole.reshape(-1, 1, view.inner), (view.outer, view.repeat, view.inner))
    assert np.array_equal(np.broadcast_to(whole, a).reshape(-1), seen.reshape(-1))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Add.of((2, 3), (2, 2)), "does not broadcast to that of a"),
        (lambda: Add.of((3,), (2, 3)), "does not broadcast to that of a"),
        (lambda: Add.of((2, 0), (1,)), "no element"),
        (lambda: Add.of((2, 3, 4, 5), (1, 3, 1, 1)), "put the channels last"),
        (lambda: Add(1, 1, 9, a_type="int16"), "a_type='int16' is not one of int8, uint8"),
        (lambda: Add(1, 1, 9, activation="gelu"), "activation='gelu' is not one of none, relu"),
        (lambda: Add(1, 1, 9, added_first="y"), "added_first='y' is not one of b, a"),
        (lambda: Add(0, 1, 9), "outer=0 must be between 1"),
        (lambda: Add(2**16, 2**10, 2**10), "split outer"),
        (lambda: parse("add:outer=1:repeat=1"), "has no inner"),
        (lambda: parse("add:outer=1:repeat=1:inner=3:block=3"), "unknown field 'block'"),
    ],
)
def test_what_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (Add, {"a_scale": 0.0}, "a_scale=0.0 is 0.0 as float32; a scale must be finite and positive"),
        (Add, {"a_scale": float("nan")}, "a scale must be finite"),
        (Add, {"a_scale": [1.0, 2.0]}, "must be one number"),
        (Add, {"x_scale": 1.0}, "x_scale is no parameter of this op; it has a_scale"),
        (Add, {"b_zero_point": 128}, "b_zero_point=128 must be integers from -128 to 127"),
        (Add, {"b_scale": 2.0**21}, "b_scale / y_scale = "),
        (Add, {"y_scale": 2.0**127}, "a_scale / y_scale = "),
        (Mul, {"a_scale": 2.0**10, "b_scale": 2.0**10}, r"a_scale \* b_scale / y_scale = "),
    ],
)
def test_what_is_refused_of_a_call(kind: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kind(1, 1, 9).checked(given)


def test_outputs_vary() -> None:
    """Comparisons need varied outputs, with ties and with both ends of the range."""
    ends = 0
    for index, problem in enumerate(binary_problems(3, 60)):
        drawn = registry.draw(problem, index)
        (y,) = registry.compute(problem, drawn)
        assert not Variety.of(y.reshape(-1, 1)).lacks(), f"sample {index} of {problem}"
        info = np.iinfo(problem.out_type)
        ends += bool((y == info.min).any() and (y == info.max).any())
    assert ends >= 10


def test_a_relu_is_a_clamp_at_the_zero_point() -> None:
    problem, relu = Add(1, 1, 500), Add(1, 1, 500, activation="relu")
    drawn = registry.draw(problem, 3)
    (y,), (clamped,) = registry.compute(problem, drawn), registry.compute(relu, drawn)
    assert np.array_equal(clamped, np.maximum(y, drawn.parameters["y_zero_point"]))
    assert not np.array_equal(clamped, y)


@pytest.mark.parametrize(
    ("shapes", "first"),
    [
        ((FULL, FULL), False), ((FULL, (1, 5, 1, 1)), False), (((1, 5, 1, 1), FULL), True), (((6,), FULL), False),
        (((3, 1, 1, 1), (3, 5, 4, 1)), True), (((1,), (1,)), True), (((), (4,)), True), (((4,), ()), False),
    ],
)  # fmt: skip
def test_which_input_a_sum_begins_with(shapes: tuple[tuple[int, ...], ...], first: bool) -> None:
    assert begins_with_first(*shapes) is first
