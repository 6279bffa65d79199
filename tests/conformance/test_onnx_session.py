"""The node cases of the onnx package in a session: each runs as in ONNX Runtime, or is refused if it refuses it."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

from qconv.dtypes import FLOAT8
from qconv.onnx import Session, float8

SERVED = ("QLinearConv", "ConvInteger", "QLinearMatMul", "MatMulInteger")


@lru_cache(maxsize=1)
def cases() -> tuple[Any, ...]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(case for case in collect_testcases(None) if case.model)


def value_of(given: Any) -> Any:
    if isinstance(given, TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, list | tuple):
        return [np.asarray(each) for each in given]
    return None if given is None else np.asarray(given)


def feeds_of(case: Any) -> dict[str, Any]:
    names = [value.name for value in case.model.graph.input]
    return {name: value_of(given) for name, given in zip(names, case.data_sets[0][0], strict=False)}


def by_ort(model: Any, feeds: dict[str, Any]) -> list[Any] | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        if float8.has_float8(session):
            return float8.run(session, [value.name for value in session.get_outputs()], feeds)
        return list(session.run(None, feeds))
    except Exception:
        return None


def by_session(model: Any, feeds: dict[str, Any]) -> list[Any] | None:
    """Run a session; any refusal must be a ValueError."""
    try:
        return Session(model, "cpu").run(None, feeds)
    except ValueError:
        return None


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None or other is None:
        return one is other
    one, other = np.asarray(one), np.asarray(other)
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if str(one.dtype) in FLOAT8:
        return bool(np.array_equal(one.astype(np.float32), other.astype(np.float32), equal_nan=True))
    if one.dtype.kind in "fc":
        # A function of many nodes may be fused differently after a rewrite. In test_sce_NCd1d2d3d4d5_mean_weight, the
        # sums of ONNX Runtime are 2.8e-6 off the exact ones, and those of the kernels 1e-7.
        return bool(np.allclose(one, other, 2e-6, 2e-6, equal_nan=True))
    return bool((one == other).all())


@pytest.mark.many
@pytest.mark.slow
def test_every_case_runs_as_in_onnxruntime() -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for case in cases():
        feeds = feeds_of(case)
        wanted, got = by_ort(case.model, feeds), by_session(case.model, feeds)
        if wanted is None:
            counts["refused by ONNX Runtime"] += 1
        elif got is None or not same(got, wanted):
            wrong.append(case.name)
        else:
            counts["the same"] += 1
    print(f"\nonnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {dict(counts)}")
    assert not wrong
    assert counts["the same"] >= 1000


@pytest.mark.slow  # collecting the cases takes seconds
def test_cases_of_the_ops_that_run_here() -> None:
    """All inputs but the first are constants, as in models. ONNX Runtime refuses zero points per channel in
    ConvInteger, and its arithmetic differs from the reference's on ties only."""
    passed: Counter[str] = Counter()
    for case in cases():
        if len(case.model.graph.node) != 1 or case.model.graph.node[0].op_type not in SERVED:
            continue
        first, *others = feeds_of(case).items()
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        del model.graph.input[1:]
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in others)
        options = by_ort(model, dict([first]))
        op = case.model.graph.node[0].op_type
        if options is None and op != "ConvInteger":
            continue  # QLinearMatMul with scales of 16 bits
        session = Session(model, "cpu")
        (got,), wanted = session.run(None, dict([first])), value_of(case.data_sets[0][1][0])
        np.testing.assert_array_equal(got, wanted, case.name)
        if all(row.runs_on == "qconv" for row in session.explain().rows):
            passed[op] += 1
    print(f"\nonnx {onnx.__version__}: {dict(passed)} on kernels")
    assert passed["QLinearConv"] >= 1
    assert passed["ConvInteger"] >= 2
    assert passed["QLinearMatMul"] >= 2
    assert passed["MatMulInteger"] >= 1
