"""A session before and after tuning, on the CPU device and a small network: the contents of a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from current import is_current

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks
import tuned_sessions


@pytest.mark.slow
def test_a_row_has_both_times_and_what_tuning_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_DB", "")  # restored afterwards: the suite sets its own databases
    for name in ("ROUNDS", "RUNS"):
        monkeypatch.setattr(tuned_sessions, name, 1)
    model = quantized_networks.quantized(quantized_networks.resnet_like(), "QDQ", "u8s8", True)
    onnx.save(model, tmp_path / "small.onnx")
    networks = ["--networks", str(tmp_path / "small.onnx"), "--batch", "2", "--seconds", "1"]
    tuned_sessions.main([*networks, "--device", "cpu", "--out", str(tmp_path)])
    found: Any = json.loads((tmp_path / "tuned_sessions.json").read_text())
    (row,) = found["rows"]
    assert (row["name"], row["batch"], row["verified"]) == ("small", 2, True)
    assert row["digests"]
    assert is_current(row, "cpu")
    assert row["over_before"] == pytest.approx(row["after_ms"] / row["before_ms"])
    assert row["race"]["after_ms"] <= 1.01 * row["race"]["before_ms"]
    assert all("kept in a network's race" in why for _, _, why in row["kernels"] if "no kernel" not in why)
