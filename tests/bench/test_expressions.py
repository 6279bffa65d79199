"""The suite `expressions`: its problems, and a run on the CPU device."""

from __future__ import annotations

import json
from pathlib import Path

import expressions
import numpy as np
import pytest
from current import is_current

from qconv.ops import registry


@pytest.mark.parametrize("case", list(expressions.cases()), ids=lambda case: f"{case.name}-{case.dtype}")
def test_every_case_is_a_problem(case: expressions.Case) -> None:
    problem = case.problem(2, 96)
    assert problem.outputs[0].shape == (2, 96)
    assert registry.parse(str(problem)) == problem


def case_of(name: str, dtype: str) -> expressions.Case:
    (case,) = (case for case in expressions.cases() if (case.name, case.dtype) == (name, dtype))
    return case


def test_a_softmax_and_a_normalization_are_those_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((4, 96)).astype(np.float32)
    (y,) = registry.compute(case_of("softmax", "float32").problem(4, 96), registry.Sample((x.reshape(-1),)))
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(y, exact / exact.sum(1, keepdims=True), rtol=1e-5)
    scale, shift = x[0], x[1]
    problem = case_of("layer_norm", "float32").problem(4, 96)
    (y,) = registry.compute(problem, registry.Sample((x.reshape(-1), scale, shift)))
    centred = x - x.mean(1, keepdims=True, dtype=np.float64)
    variance = (centred**2).mean(1, keepdims=True)
    np.testing.assert_allclose(y, centred / np.sqrt(variance + 1e-5) * scale + shift, rtol=1e-4, atol=1e-5)


def test_the_wider_tensor_has_the_size() -> None:
    assert next(expressions.sizes(case_of("quantize", "int8"), [64])) == ("64 MiB", 16384, 1024)
    assert next(expressions.sizes(case_of("silu", "int8"), [64])) == ("64 MiB", 65536, 1024)


@pytest.mark.slow
def test_a_row_is_proven_and_timed(tmp_path: Path) -> None:
    asked = ["--device", "cpu", "--mib", "", "--only", "add_relu float32", "--commit", "c0ffee", "--out", str(tmp_path)]
    expressions.main(asked)
    rows = json.loads((tmp_path / "expressions.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["add_relu float32 196x192", "add_relu float32 588x196"]
    for row in rows:
        assert row["verified"] is True
        assert row["time_us"] > 0
        assert is_current(row, "cpu")


def test_an_output_that_differs_at_either_end_is_wrong() -> None:
    case = case_of("add_relu", "float32")
    arrays = expressions.drawn(case, 200, 8)
    (y,) = registry.compute(case.problem(200, 8), registry.Sample(tuple(arrays)))
    assert expressions.is_right(case, 200, 8, arrays, y)
    for row in (0, 199):
        wrong = y.copy()
        wrong[row, 3] += 1
        assert not expressions.is_right(case, 200, 8, arrays, wrong)
