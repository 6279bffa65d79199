"""The suite of whole networks, on the CPU device and a small network: the contents of its rows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from current import is_current

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import network_timing
import networks
import onnx
import quantized_networks


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "images", partial(network_timing.images, size=quantized_networks.SIZE))
    monkeypatch.setattr(networks, "timed_ms", partial(network_timing.timed_ms, rounds=1, runs=1))


def run(folder: Path, *more: str) -> Any:
    model = quantized_networks.quantized(quantized_networks.resnet_like(), "QDQ", "u8s8", True)
    onnx.save(model, folder / "small.onnx")
    arguments = [
        str(folder / "small.onnx"),
        "--batch",
        "1,2",
        "--device",
        "cpu",
        "--peer-batch",
        "",
        "--out",
        str(folder),
    ]
    networks.main([*arguments, *more])
    return json.loads((folder / "networks.json").read_text())


@pytest.mark.slow
def test_a_row_has_the_time_the_proof_and_where_the_time_goes(few: None, tmp_path: Path) -> None:
    found = run(tmp_path, "--db", str(tmp_path / "tune.sqlite"), "--seconds", "0.5")
    assert [(row["name"], row["batch"], row["verified"]) for row in found["rows"]] == [
        ("small", 1, True),
        ("small", 2, True),
    ]
    assert found["summary"] == {"rows": 2, "verified": 2}
    for row in found["rows"]:
        assert row["fallen_back"] == {}
        assert row["digests"]
        assert is_current(row, found["device"]["target"])
        assert row["images_per_s"] == pytest.approx(row["batch"] / row["ms"] * 1e3)
        assert sum(row["profile_us"].values()) == pytest.approx(sum(us for _, _, us in row["layers_us"]), abs=1)


@pytest.mark.slow
def test_images_of_integers(few: None, tmp_path: Path) -> None:
    found = run(tmp_path, "--integer-inputs")
    assert [(row["inputs"], row["verified"]) for row in found["rows"]] == [("uint8", True)] * 2
    assert not any(op.startswith("QuantizeLinear") for row in found["rows"] for op in row["profile_us"])


@pytest.mark.slow
def test_a_session_that_differs_is_said_and_is_no_success(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_ort = networks.by_ort
    monkeypatch.setattr(networks, "by_ort", lambda path, x: by_ort(path, x) + np.float32(0.5))
    with pytest.raises(SystemExit, match="small N=1, small N=2"):
        run(tmp_path)
    assert not any(row["verified"] for row in json.loads((tmp_path / "networks.json").read_text())["rows"])


def test_the_summary_compares_by_batch() -> None:
    rows = [{"batch": n, "verified": True, "over_inductor_fp16": ratio} for n, ratio in ((1, 2.0), (1, 8.0), (32, 3.0))]
    rows.append({"batch": 32, "verified": False})
    made = networks.summary(rows)
    means = {"over_inductor_fp16_n1": pytest.approx(4), "over_inductor_fp16_n32": pytest.approx(3)}
    assert made == {"rows": 4, "verified": 3, **means}
