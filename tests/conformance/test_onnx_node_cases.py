"""The node cases of the onnx package, tests that others wrote: every 8-, 16- and 32-bit one passes, every other one is
refused by name; and the official runner accepts the backend unchanged."""

from __future__ import annotations

import unittest
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
import onnx.backend.test
from onnx import TensorProto, numpy_helper

import qconv.onnx

OPS = ("QLinearConv", "ConvInteger", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
# The cases of onnx 1.23. An older version lacks the blocked and the 2-bit cases; a newer one may have more.
PASSING = {
    *("test_qlinearconv", "test_convinteger_without_padding", "test_convinteger_with_padding"),
    *("test_quantizelinear", "test_quantizelinear_axis", "test_quantizelinear_int16", "test_quantizelinear_uint16"),
    *("test_quantizelinear_blocked_asymmetric", "test_quantizelinear_blocked_symmetric"),
    *("test_dequantizelinear", "test_dequantizelinear_axis", "test_dequantizelinear_blocked"),
    *("test_dequantizelinear_int16", "test_dequantizelinear_uint16"),
    *("test_dynamicquantizelinear", "test_dynamicquantizelinear_max_adjusted"),
    "test_dynamicquantizelinear_min_adjusted",
}
NARROW = ("int4", "int2", "e4m3", "e5m2", "e2m1", "e2m3", "e3m2", "e8m0")


@lru_cache(maxsize=1)
def cases() -> dict[str, Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Without an op: an op passed in the first call would also apply to all later ones.
        found = [case for case in collect_testcases(None) if case.model and len(case.model.graph.node) == 1]
    return {case.name: case for case in found if case.model.graph.node[0].op_type in OPS}


def is_narrow(text: str) -> bool:
    return any(part in text for part in NARROW)


def as_array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def check_all(device: str) -> None:
    passed: set[str] = set()
    refused: dict[str, str] = {}
    for name, case in cases().items():
        try:
            model = qconv.onnx.Backend.prepare(case.model, device)
        except qconv.onnx.Unsupported as error:
            refused[name] = str(error)
            continue
        assert qconv.onnx.Backend.is_compatible(case.model, device)
        for inputs, outputs in case.data_sets:
            results = model.run([as_array(array) for array in inputs])
            for got, wanted in zip(results, map(as_array, outputs), strict=True):
                assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), name
                np.testing.assert_allclose(got, wanted, case.rtol, case.atol, err_msg=name)
        passed.add(name)
    print(f"onnx {onnx.__version__}: {len(passed)} of {len(cases())} node cases pass, {len(refused)} are refused")
    assert set(refused) == {name for name in cases() if is_narrow(name)}
    assert [text for text in refused.values() if not is_narrow(text)] == []
    assert not any(qconv.onnx.Backend.is_compatible(cases()[name].model, device) for name in refused)
    assert passed >= PASSING & set(cases())
    assert len(passed) >= 12


@pytest.mark.slow
def test_every_case_passes_or_is_refused_by_name() -> None:
    check_all("CPU")


@pytest.mark.slow
def test_the_counts_of_this_version() -> None:
    """docs/tasks/onnx.md names these counts."""
    narrow = {name for name in cases() if is_narrow(name)}
    assert len(cases()) - len(narrow) == 17 or not onnx.__version__.startswith("1.23")
    assert len(narrow) == 16 or not onnx.__version__.startswith("1.23")


@pytest.mark.gpu
def test_every_case_passes_on_a_gpu() -> None:
    check_all("CUDA")


def run_official(device: str) -> None:
    """Run the unmodified runner of the onnx package. In one test: it has thousands of cases, and skips all but ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = onnx.backend.test.BackendTest(qconv.onnx.Backend, __name__)
    runner.include(rf"^test_({'|'.join(OPS).lower()})_(.*_)?{device}$")
    # `expanded` cases consist of other ops.
    runner.exclude("|".join(("expanded", *NARROW)))
    result = unittest.TestResult()
    runner.test_suite.run(result)
    assert [text for _, text in (*result.failures, *result.errors)] == []
    assert result.testsRun - len(result.skipped) == len({name for name in cases() if not is_narrow(name)})


@pytest.mark.slow
def test_the_official_runner() -> None:
    run_official("cpu")


@pytest.mark.gpu
def test_the_official_runner_on_a_gpu() -> None:
    run_official("cuda")
