"""The shared nouns of ops: a repr is one line that says what the object is."""

from __future__ import annotations

import numpy as np
import pytest

import qconv
from qconv.op import Problem

ONE = qconv.Conv2d(1, 8, 8, 16, 16, 3, 3, pad=1)


@pytest.mark.parametrize("problem", [ONE, qconv.FusedConv2d(ONE, ONE)], ids=["one", "chain"])
def test_the_repr_of_a_problem_makes_it_again(problem: Problem) -> None:
    assert repr(problem) == f"qconv.parse({str(problem)!r})"
    assert eval(repr(problem)) == problem


def test_a_repr_names_what_differs_from_the_defaults() -> None:
    assert repr(qconv.Quantization()) == "Quantization()"
    assert repr(qconv.Quantization(bias="int32", x_zero_point=True)) == "Quantization(x_zero_point=True, bias='int32')"
    assert repr(qconv.Mode(rounding="half_away")) == "Mode(rounding='half_away')"


def test_a_repr_shows_an_array_by_its_shape() -> None:
    made = qconv.Parameters(x_scale=np.float32(0.5), w_scale=np.ones(1000, np.float32))
    assert repr(made) == "Parameters(x_scale=0.5, w_scale=<float32 of (1000,)>)"
