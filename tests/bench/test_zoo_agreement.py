"""The rows of agreement: what is measured, and what a second run measures again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("cv2", reason="cv2 is not installed: pip install '.[networks]'")

import quantized_networks as networks
import zoo_agreement


def test_nudged_images_are_a_quantum_larger_in_one_element() -> None:
    model = networks.quantized(networks.NETWORKS["resnet"](), "QDQ", "u8s8", True)
    x = networks.images(3, 1)
    more = zoo_agreement.nudged(model, {"x": x})["x"] - x
    assert [int((image != 0).sum()) for image in more] == [1, 1, 1]
    quantum = float(np.ptp(np.concatenate([networks.images(2, 3).ravel(), [0]]))) / 255
    np.testing.assert_allclose(more[more != 0], quantum, rtol=1e-3)


def test_onnxruntime_is_equal_to_itself_with_equal_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo_agreement, "nudged", lambda _, feeds: {"x": -feeds["x"]})
    model = networks.quantized(networks.NETWORKS["resnet"](), "QDQ", "u8s8", True)
    batches = [{"x": networks.images(4, seed)} for seed in range(3)]
    found = zoo_agreement.of_itself(model, batches, zoo_agreement.agreement.largest_channel, "s8s8")
    assert found["by_default"]["outputs"] == [3 * 4 * networks.CLASSES, 0, 0]
    assert found["by_default"]["same"] == found["by_default"]["decisions"] == 12
    assert sum(found["nudged"]["outputs"][1:]) > 0


def test_a_network_is_measured_once_and_one_without_a_row_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def row_of(name: str, size: int, types: str) -> dict[str, Any]:
        asked.append(f"{name} {size} {types}")
        if name == "b":
            raise ValueError("it has no kernels")
        return {"name": name, "types": types, "outputs": [1, 0, 0]}

    monkeypatch.setattr(zoo_agreement, "row_of", row_of)
    monkeypatch.setattr(sys, "argv", ["x", "a", "b", "--out", str(tmp_path), "--types", "u8s8", "--size", "32"])
    zoo_agreement.main()
    zoo_agreement.main()
    assert asked == ["a 32 u8s8", "b 32 u8s8", "b 32 u8s8"]
    rows = json.loads((tmp_path / "zoo_agreement.json").read_text())["rows"]
    assert [(row["name"], row.get("missing")) for row in rows] == [("a", None), ("b", "ValueError: it has no kernels")]
    assert capsys.readouterr().out.count("it has no kernels") == 2
