"""The comparisons and ratios of a network's row."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import zoo_worker


def test_outputs_agree_by_elements_range_and_largest_channel() -> None:
    scores = np.array([[0.0, 4.0, 1.0], [0.0, 1.0, 0.5]], np.float32)
    labels = np.array([3, 4])
    other = scores.copy()
    other[1, 2] = 2.0
    found = zoo_worker.agreement([[other[:1], labels[:1]], [other[1:], labels[1:]]], [scores, labels])
    assert found == {"equal": 7 / 8, "largest": pytest.approx(1.5 / 4), "arg_max": 0.5}


def test_outputs_without_channels_have_no_largest_one() -> None:
    labels = np.array([3, 4])
    assert zoo_worker.agreement([[labels]], [labels]) == {"equal": 1.0, "largest": 0.0, "arg_max": None}


def test_a_ratio_is_the_peers_time_over_ours() -> None:
    times = {"ms": 2.0, "eager_fp16_ms": 8.0, "inductor_fp16_ms": 4.0}
    assert zoo_worker.ratios(times) == {
        "over_eager_fp16": 4.0,
        "over_inductor_fp16": 2.0,
        "over_faster_peer": 2.0,
    }
    assert zoo_worker.ratios({"ms": 2.0, "eager_fp16_ms": 8.0})["over_faster_peer"] == 4.0
    assert zoo_worker.ratios({"eager_fp16_ms": 8.0}) == zoo_worker.ratios({"ms": 2.0}) == {}


def test_a_reason_is_kept_and_the_others_go_on() -> None:
    row: dict[str, object] = {}
    assert zoo_worker.attempted(row, "ours", lambda: 1 // 0) is None
    assert row == {"missing": {"ours": "ZeroDivisionError: integer division or modulo by zero"}}
